package offer

import (
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
)

// Policy says what devices are offered as.
type Policy struct {
	Mode         string // one of [Modes]
	ResourceName string // the one resource of the modes single and pool
	Namespace    string // of the resources that the other modes name
	Rules        []Rule // what the operator names otherwise; the first that matches counts
}

// Resource is the devices that are offered under one name.
type Resource struct {
	Name    string
	Devices []*inventory.Device // sorted by ID, never empty
}

// ResourceOf names the resource that a device is to be offered as, by what it is.
// "": it is not offered, and the error says what it lacks; without an error it is
// none of this mode's.
func (p Policy) ResourceOf(d *inventory.Device) (string, error) {
	if d.Family != familyPool && p.Mode != Pool {
		if i := p.RuleOf(d); i >= 0 {
			return p.Rules[i].Resource, nil
		}
	}
	return p.byMode(d)
}

// RuleOf is the index of the first rule that matches a device, -1: none does. A rule
// for an AFU matches nothing in modes in which pods change it: their device would
// move from under them.
func (p Policy) RuleOf(d *inventory.Device) int {
	return slices.IndexFunc(p.Rules, func(r Rule) bool {
		return r.Match.matches(d) && !(p.AnyAFU() && r.Match.AFUID != "")
	})
}

// Owns says whether an id that is held under a resource's name may be a device of
// ours: in this mode, or in another one that this node was in before.
func (p Policy) Owns(resource, id string) bool {
	return resource == p.ResourceName ||
		slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Resource == resource }) ||
		// Other plugins use these names, too, but other ids.
		p.namedByMode(resource) && inventory.IsAddress(id)
}

// Resources sorts devices into resources by [inventory.Device.OfferedAs] and returns the
// resources that have a device, sorted by name. The devices must be sorted by id, as they
// are in a snapshot.
func Resources(devices []*inventory.Device) []Resource {
	var resources []Resource
	at := make(map[string]int)
	for _, d := range devices {
		if d.OfferedAs == "" {
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
