package inventory

import (
	"slices"
	"strconv"
	"strings"
)

// Change describes how one device differs between two snapshots. Old and New are immutable.
type Change struct {
	ID  string
	Old *Device // nil if the device wasn't listed
	New *Device // nil if the device is no longer listed
}

// Changes compares two lists of devices, both sorted by id, and returns one change for each device that differs, also
// sorted by id. A reader that skips snapshots should compare the newest snapshot with the last one it used.
func Changes(before, after []*Device) []Change {
	var all []Change
	for len(before) > 0 || len(after) > 0 {
		var old, now *Device
		switch {
		case len(before) > 0 && len(after) > 0 && before[0] == after[0]:
			before, after = before[1:], after[1:]
			continue
		case len(after) == 0, len(before) > 0 && before[0].ID < after[0].ID:
			old = before[0]
		case len(before) == 0, after[0].ID < before[0].ID:
			now = after[0]
		default:
			old, now = before[0], after[0]
		}
		id := ""
		if old != nil {
			before, id = before[1:], old.ID
		}
		if now != nil {
			after, id = after[1:], now.ID
		}
		if old == nil || now == nil || !old.equal(now) {
			all = append(all, Change{ID: id, Old: old, New: now})
		}
	}
	return all
}

// HealthChanged reports whether the device is in both lists and its health or its reasons differ.
func (c Change) HealthChanged() bool {
	return c.Old != nil && c.New != nil && (c.Old.Health != c.New.Health || !slices.Equal(c.Old.Reasons, c.New.Reasons))
}

// Attribute is a part of a device's identity that has changed.
type Attribute struct{ Name, Old, New string }

// Identity returns the parts of the device's identity that have changed, or nil if the device
// is not in both lists.
func (c Change) Identity() []Attribute {
	if c.Old == nil || c.New == nil {
		return nil
	}
	old, d := c.Old, c.New
	all := []Attribute{
		{"resource", old.OfferedAs, d.OfferedAs},
		{"family", old.Family, d.Family},
		{"pci_id", old.PCIID, d.PCIID},
		{"afu", old.AFUID, d.AFUID},
		{"interface", old.InterfaceID, d.InterfaceID},
		{"nodes", strings.Join(old.Nodes, ","), strings.Join(d.Nodes, ",")},
		{"shared_nodes", strings.Join(old.SharedNodes, ","), strings.Join(d.SharedNodes, ",")},
		{"members", strings.Join(old.Members, ","), strings.Join(d.Members, ",")},
		{"parent", old.Parent, d.Parent},
		{"parent_nodes", strings.Join(old.ParentNodes, ","), strings.Join(d.ParentNodes, ",")},
		{"port_id", strconv.Itoa(old.PortID), strconv.Itoa(d.PortID)},
		{"numa_node", strconv.Itoa(old.NUMANode), strconv.Itoa(d.NUMANode)},
	}
	return slices.DeleteFunc(all, func(a Attribute) bool { return a.Old == a.New })
}
