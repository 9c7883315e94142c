package offer

import (
	"fmt"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
)

// The modes: what one unit of a resource is.
const (
	Single = "single" // every FPGA port is one unit of one resource
	Pool   = "pool"   // numbered units without hardware behind them
)

// Modes lists the modes that there are.
func Modes() []string { return []string{Single, Pool} }

// familyPool is the name of the family whose devices are the units of mode pool,
// and of no other mode.
const familyPool = "pool"

// Policy says which resource offers which device.
type Policy struct {
	Mode         string // one of [Modes]
	ResourceName string // the one resource of the modes single and pool
}

// Unit is one allocatable thing of a resource.
type Unit struct {
	ID       string
	Health   inventory.Health
	Reasons  []string // why it is not healthy
	NUMANode int      // -1: none
	Nodes    []string // names below /dev that the container is given
}

// Resource is what the kubelet is told under one name.
type Resource struct {
	Name  string
	Units []Unit // sorted by ID, never empty
}

// Validate checks the mode and the resource name.
func (p Policy) Validate() error {
	if !slices.Contains(Modes(), p.Mode) {
		return fmt.Errorf("mode %q is not one of %s", p.Mode, strings.Join(Modes(), ", "))
	}
	return ValidateName(p.ResourceName)
}

// Owns says whether a resource is one that this policy may offer devices under.
func (p Policy) Owns(resource string) bool { return resource == p.ResourceName }

// AnyAFU says whether a device is the same one whatever AFU it holds: in modes in
// which pods program it.
func (p Policy) AnyAFU() bool { return false }

// Resources sorts the devices into resources, themselves sorted by name. A
// resource without a device is not in the answer. The devices must be sorted by
// id, as they are in a snapshot; nothing of them is changed.
func (p Policy) Resources(devices []*inventory.Device) []Resource {
	var resources []Resource
	for _, d := range devices {
		name := p.ResourceOf(d)
		if name == "" {
			continue
		}
		i := slices.IndexFunc(resources, func(r Resource) bool { return r.Name == name })
		if i < 0 {
			i = len(resources)
			resources = append(resources, Resource{Name: name, Units: make([]Unit, 0, len(devices))})
		}
		resources[i].Units = append(resources[i].Units, p.unit(d))
	}
	slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return resources
}

// ResourceOf names the resource that offers the device, "" when the mode does
// not offer it. A device that is known only because somebody holds it is offered
// as it is held.
func (p Policy) ResourceOf(d *inventory.Device) string {
	if d.HeldAs != "" {
		if p.Owns(d.HeldAs) {
			return d.HeldAs
		}
		return ""
	}
	switch p.Mode {
	case Single:
		if d.Family != familyPool {
			return p.ResourceName
		}
	case Pool:
		if d.Family == familyPool {
			return p.ResourceName
		}
	}
	return ""
}

// unit is the device as its resource offers it.
func (p Policy) unit(d *inventory.Device) Unit {
	return Unit{ID: d.ID, Health: d.Health, Reasons: d.Reasons, NUMANode: d.NUMANode, Nodes: d.Nodes}
}

// Equal says whether nobody could tell u and o apart.
func (u Unit) Equal(o Unit) bool {
	return u.ID == o.ID && u.Health == o.Health && u.NUMANode == o.NUMANode &&
		slices.Equal(u.Reasons, o.Reasons) && slices.Equal(u.Nodes, o.Nodes)
}
