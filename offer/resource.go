package offer

import (
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/offer/names"
)

// Naming determines resource names.
type Naming struct {
	Mode         string // one of [Modes]
	ResourceName string // the resource in single and pool modes
	Namespace    string // the domain of resource names in the other modes
	Rules        []Rule // the administrator's rules; the first one that matches takes precedence over the mode
}

// Resource holds the devices that are offered under one name.
type Resource struct {
	Name    string
	Devices []*inventory.Device // sorted by ID, never empty
}

// ResourceOf returns the name of the resource that a device belongs to, or "" if it isn't offered. In that case, the
// error explains why, or is nil if the mode never offers such devices.
func (p Naming) ResourceOf(d *inventory.Device) (string, error) {
	if d.Family != familyPool && p.Mode != Pool {
		if i := p.RuleOf(d); i >= 0 {
			return p.Rules[i].Resource, nil
		}
	}
	switch {
	case d.OnlyByRule, d.NamedByShell && p.Mode == Pool:
		return "", nil
	case d.NamedByShell:
		name, ok := names.Shell(d.Attributes[inventory.AttributeVBNV], d.Attributes[inventory.AttributeTimestamp])
		if !ok {
			return "", errNoShell
		}
		return name, nil
	}
	return p.byMode(d)
}

// RuleOf returns the index of the first rule that matches a device, or -1. In modes in which pods change the AFU, a
// rule for an AFU doesn't match anything, because otherwise a device would move to another resource while it is held.
func (p Naming) RuleOf(d *inventory.Device) int {
	return slices.IndexFunc(p.Rules, func(r Rule) bool {
		return r.Match.matches(d) && !(p.AnyAFU() && r.Match.AFUID != "")
	})
}

// Owns reports whether a device that a container holds under this resource name and id may belong to this plugin, in
// the current mode or an earlier one.
func (p Naming) Owns(resource, id string) bool {
	return resource == p.ResourceName ||
		slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Resource == resource }) ||
		// Check the id too, because other plugins use the same resource names with a different kind of id.
		(p.namedByMode(resource) || names.IsShell(resource)) && inventory.IsAddress(id)
}

// Resources groups devices into resources by [inventory.Device.OfferedAs] and returns the resources, sorted by name. It
// omits devices held by a claim, which have the DRA driver's name instead of a resource name. The devices must be
// sorted by id, as they are in a snapshot.
func Resources(devices []*inventory.Device) []Resource {
	var resources []Resource
	at := make(map[string]int)
	for _, d := range devices {
		if d.OfferedAs == "" || d.OfferedAs == draname.Driver {
			continue
		}
		i, ok := at[d.OfferedAs]
		if !ok {
			i = len(resources)
			at[d.OfferedAs] = i
			resources = append(resources, Resource{Name: d.OfferedAs})
		}
		resources[i].Devices = append(resources[i].Devices, d)
	}
	slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return resources
}
