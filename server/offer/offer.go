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

// Unit is one allocatable thing of a resource.
type Unit struct {
	ID       string
	Card     string // what units share that stand on one card; "" where there is none
	Health   inventory.Health
	Reasons  []string // why it is not healthy
	NUMANode int      // -1: none
	Nodes    []string // names below /dev that the container is given

	NodeNumbers []string // MAJOR:MINOR of the nodes, as far as they are known
}

// Resource is what the kubelet is told under one name.
type Resource struct {
	Name  string
	Units []Unit // sorted by ID, never empty
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

// Resources sorts devices into resources by what each is offered as, themselves
// sorted by name. A resource without a device is not in the answer. The devices
// must be sorted by id, as they are in a snapshot; nothing of them is changed.
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
		resources[i].Units = append(resources[i].Units, unit(d))
	}
	slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return resources
}

// unit is the device as its resource offers it.
func unit(d *inventory.Device) Unit {
	return Unit{ID: d.ID, Card: d.PCIAddress, Health: d.Health, Reasons: d.Reasons, NUMANode: d.NUMANode, Nodes: d.Nodes, NodeNumbers: d.NodeNumbers}
}

// Equal says whether nobody could tell u and o apart.
func (u Unit) Equal(o Unit) bool {
	return u.ID == o.ID && u.Card == o.Card && u.Health == o.Health && u.NUMANode == o.NUMANode &&
		slices.Equal(u.Reasons, o.Reasons) && slices.Equal(u.Nodes, o.Nodes) && slices.Equal(u.NodeNumbers, o.NodeNumbers)
}
