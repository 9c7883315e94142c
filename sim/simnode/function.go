package simnode

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Values of [Card.Group], which says which IOMMU group a function is in.
const (
	OwnGroup  = "own"  // the function has a group to itself
	SlotGroup = "slot" // the slot's functions share a group and form one card, which is pulled as a whole
)

const (
	// VFIODriver is the driver that lets containers use a function.
	VFIODriver = "vfio-pci"

	pciDrivers = "bus/pci/drivers"
	groupsDir  = "kernel/iommu_groups"
	vfioDir    = "devices/virtual/vfio"
	vfioClass  = "class/vfio"
	cdevClass  = "class/vfio-dev"
)

// function is the state of a plugged-in function with an IOMMU group.
type function struct {
	Driver    string // current driver; "" if there is none
	IOMMU     int    // the group's number
	Character int    // M in vfio-dev/vfioM; -1 if vfio-pci hasn't registered the function
	Minor     int    // minor of the group's device node, the same for all of its functions; -1 if Character is -1
	Render    int    `json:",omitempty"` // minor of a function's render node if it is bound to xocl; otherwise 0
}

// harmless reports whether a group stays viable if one of its functions is bound to the given driver.
func harmless(driver string) bool {
	return slices.Contains([]string{"", VFIODriver, "pci-stub", "pcieport"}, driver)
}

// groupOf returns an IOMMU group's functions, sorted by address.
func (n *Node) groupOf(number int) (members []*plugged) {
	for _, address := range slices.Sorted(maps.Keys(n.cards)) {
		if f := n.cards[address].Function; f != nil && f.IOMMU == number {
			members = append(members, n.cards[address])
		}
	}
	return members
}

// registered returns a function in c's group, other than c, that vfio-pci has registered, or nil if there is none.
func (n *Node) registered(c *plugged) *plugged {
	for _, m := range n.groupOf(c.Function.IOMMU) {
		if m != c && m.Function.Character >= 0 {
			return m
		}
	}
	return nil
}

// addFunction assigns an IOMMU group to the function.
func (n *Node) addFunction(c *plugged) {
	c.Function = &function{IOMMU: -1, Character: -1, Minor: -1}
	if c.Group == SlotGroup {
		for _, other := range n.cards {
			if other != c && other.Group == SlotGroup && slotOf(other.Address) == slotOf(c.Address) {
				c.Function.IOMMU = other.Function.IOMMU
				return
			}
		}
	}
	c.Function.IOMMU = n.free(groups, 1)[0]
}

func slotOf(address string) string {
	slot, _, _ := strings.Cut(address, ".")
	return slot
}

func (n *Node) groupDir(c *plugged) string { return n.sys(groupsDir, strconv.Itoa(c.Function.IOMMU)) }

// vfioNode returns the name of the group's device node.
func (c *plugged) vfioNode() string { return "vfio/" + strconv.Itoa(c.Function.IOMMU) }

// virtFn returns the path of the physical function's link to a virtual function.
func (n *Node) virtFn(c *plugged) string {
	routing := func(address string) uint64 { // device and function
		device, f, _ := strings.Cut(address[len("0000:00:"):], ".")
		d, _ := strconv.ParseUint(device, 16, 8)
		i, _ := strconv.ParseUint(f, 16, 8)
		return d*8 + i
	}
	return filepath.Join(n.CardDir(c.PhysFn), "virtfn"+strconv.FormatUint(routing(c.Address)-routing(c.PhysFn)-1, 10))
}

// plugFunction creates a function's files in the kernel's order.
func (n *Node) plugFunction(t *tree, c *plugged) {
	dir := n.CardDir(c.Address)
	if len(n.groupOf(c.Function.IOMMU)) == 1 {
		t.file(n.groupDir(c)+"/type", "DMA-FQ\n")
	}
	t.link(n.groupDir(c), filepath.Join(dir, "iommu_group"))
	t.link(dir, filepath.Join(n.groupDir(c), "devices", c.Address))
	t.link(dir, n.sys(busDir, c.Address))
	if c.PhysFn != "" {
		t.link(n.CardDir(c.PhysFn), filepath.Join(dir, "physfn"))
		t.link(dir, n.virtFn(c))
	}
	if t.err == nil {
		t.err = n.bindFunction(c, c.Driver)
	}
}

// bindFunction binds a driver to a function that doesn't have one. As in the kernel, the driver core's links are
// created before vfio-pci registers the function.
func (n *Node) bindFunction(c *plugged, driver string) error {
	f, dir := c.Function, n.CardDir(c.Address)
	f.Driver = driver
	if driver == VFIODriver {
		if other := n.registered(c); other != nil {
			f.Minor = other.Function.Minor
		} else {
			f.Minor = n.free(minors, 1)[0]
		}
		f.Character = n.free(characters, 1)[0]
	}
	if driver == XRTDriver {
		f.Render = n.free(renders, 1)[0]
	}
	if err := n.save(); err != nil || driver == "" {
		return err
	}
	t := n.tree()
	t.link(dir, n.sys(pciDrivers, driver, c.Address))
	t.link(n.sys(pciDrivers, driver), filepath.Join(dir, "driver"))
	switch driver {
	case XRTDriver:
		n.bindXRT(t, c)
		return t.err
	case ManagementDriver:
		n.bindManagement(t, c)
		return t.err
	case VFIODriver:
	default:
		return t.err
	}
	n.loadVFIO(t)
	if n.registered(c) == nil {
		group := n.sys(vfioDir, strconv.Itoa(f.IOMMU))
		t.file(group+"/dev", fmt.Sprintf("%d:%d\n", n.vfioMajor(), f.Minor))
		t.link(group, n.sys(vfioClass, strconv.Itoa(f.IOMMU)))
		n.node(t, c.vfioNode(), n.vfioMajor(), f.Minor)
	}
	character := "vfio" + strconv.Itoa(f.Character)
	t.file(filepath.Join(dir, "vfio-dev", character, "uevent"), "")
	t.link(filepath.Join(dir, "vfio-dev", character), n.sys(cdevClass, character))
	return t.err
}

// vfioMajor returns the major of the groups' device nodes.
func (n *Node) vfioMajor() int {
	if n.Mknod {
		return 122 // as in majors
	}
	return 244
}

// loadVFIO creates the device node that all groups share, if it doesn't exist yet. (The kernel does this when the
// modules are loaded.) The device node is never removed.
func (n *Node) loadVFIO(t *tree) {
	class := n.sys("class/misc/vfio")
	if _, err := os.Lstat(class); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	major, minor := 10, 196
	if n.Mknod {
		major, minor = 123, 0 // no driver uses these
	}
	t.file(n.sys("devices/virtual/misc/vfio/dev"), fmt.Sprintf("%d:%d\n", major, minor))
	n.node(t, "vfio/vfio", major, minor)
	t.link(n.sys("devices/virtual/misc/vfio"), class)
}

// unbindFunction unbinds a function's driver and then calls the callback. The driver's links are removed immediately,
// but if a process is using the function's group, the rest of the work is deferred until EndUse.
func (n *Node) unbindFunction(c *plugged, then func() error) error {
	f, dir := c.Function, n.CardDir(c.Address)
	was := f.Driver
	if was != "" {
		if err := os.RemoveAll(n.sys(pciDrivers, f.Driver, c.Address)); err != nil {
			return err
		}
		// Keep the old link elsewhere, so that the next one gets a different inode number, as in sysfs.
		err := os.Rename(filepath.Join(dir, "driver"), filepath.Join(n.directories.dir, "driver-"+c.Address))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f.Driver = ""
	if was == XRTDriver || was == ManagementDriver {
		if err := n.unbindXRT(c); err != nil {
			return err
		}
	}
	rest := func() error {
		if f.Character < 0 {
			return then()
		}
		character := "vfio" + strconv.Itoa(f.Character)
		gone := []string{n.sys(cdevClass, character), filepath.Join(dir, "vfio-dev")}
		if n.registered(c) == nil {
			group := strconv.Itoa(f.IOMMU)
			gone = append(gone, filepath.Join(n.Dev, c.vfioNode()), n.sys(vfioClass, group), n.sys(vfioDir, group))
		}
		for _, path := range gone {
			if err := n.directories.removeAll(path); err != nil {
				return err
			}
		}
		f.Character, f.Minor = -1, -1
		return then()
	}
	if f.Character >= 0 && n.used[f.IOMMU] {
		n.waiting[f.IOMMU] = append(n.waiting[f.IOMMU], rest)
		return n.save()
	}
	return rest()
}

// unplugFunction unplugs a function and then calls the callback. As in unbindFunction, some of the work may be deferred
// until EndUse.
func (n *Node) unplugFunction(c *plugged, then func() error) error {
	dir := n.CardDir(c.Address)
	c.Partial = true
	if err := n.directories.retire(dir); err != nil {
		return err
	}
	if err := n.save(); err != nil {
		return err
	}
	if c.PhysFn != "" { // pci_iov_remove_virtfn removes the links before unbinding the function
		for _, link := range []string{n.virtFn(c), filepath.Join(dir, "physfn")} {
			if err := os.RemoveAll(link); err != nil {
				return err
			}
		}
	}
	return n.unbindFunction(c, func() error {
		gone := []string{filepath.Join(n.groupDir(c), "devices", c.Address), n.sys(busDir, c.Address), dir}
		if len(n.groupOf(c.Function.IOMMU)) == 1 {
			gone = append(gone, n.groupDir(c))
		}
		for _, path := range gone {
			if err := n.directories.removeAll(path); err != nil {
				return err
			}
		}
		delete(n.cards, c.Address)
		return errors.Join(n.save(), then())
	})
}

// SetDriver unbinds a function's driver and binds a different one, or none if driver is "". If a process is using the
// function's group, the new driver isn't bound until EndUse.
func (n *Node) SetDriver(address, driver string) error {
	c, err := n.function(address)
	if err == nil && n.used[c.Function.IOMMU] && !harmless(driver) {
		err = fmt.Errorf("%s: driver: found %s, want one that does no DMA while the group is used", address, driver) // EINVAL
	}
	if err == nil {
		c.Partial = true
		err = n.save()
	}
	if err == nil {
		err = n.unbindFunction(c, func() error {
			err := n.bindFunction(c, driver)
			c.Partial = err != nil
			return errors.Join(err, n.save())
		})
	}
	if err != nil {
		return fmt.Errorf("simulated node: %w", err)
	}
	return nil
}

// Use marks a function's IOMMU group as in use by a process, until EndUse. The mark isn't saved.
func (n *Node) Use(address string) error {
	c, err := n.function(address)
	if err == nil && c.Function.Character < 0 {
		err = fmt.Errorf("%s: found driver %q, want %s", address, c.Function.Driver, VFIODriver)
	}
	if err != nil {
		return fmt.Errorf("simulated node: %w", err)
	}
	n.used[c.Function.IOMMU] = true
	return nil
}

// EndUse marks a function's IOMMU group as no longer in use, and completes any unbinds and removals that are waiting
// for this, in order.
func (n *Node) EndUse(address string) error {
	c := n.cards[address]
	if c == nil || c.Function == nil || !n.used[c.Function.IOMMU] {
		return fmt.Errorf("simulated node: slot %s: found no function whose group is used", address)
	}
	group := c.Function.IOMMU
	waiting := n.waiting[group]
	delete(n.used, group)
	delete(n.waiting, group)
	for _, do := range waiting {
		if err := do(); err != nil {
			return fmt.Errorf("simulated node: %w", err)
		}
	}
	return nil
}

// GroupNode returns the name of the device node for a function's group. ok is false if there is no such function. The
// device node exists while any of the group's functions is bound to vfio-pci.
func (n *Node) GroupNode(address string) (name string, ok bool) {
	c := n.cards[address]
	if c == nil || c.Function == nil {
		return "", false
	}
	return c.vfioNode(), true
}

// function returns the plugged-in function at the given address.
func (n *Node) function(address string) (*plugged, error) {
	c := n.cards[address]
	switch {
	case c == nil || c.Function == nil:
		return nil, fmt.Errorf("slot %s: found no function with an IOMMU group", address)
	case c.Partial:
		return nil, c.partial()
	}
	return c, nil
}
