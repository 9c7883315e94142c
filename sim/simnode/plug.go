package simnode

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Plug plugs in a card. As in the kernel, the card gets the lowest free numbers. If Plug fails, it pulls the card
// again.
func (n *Node) Plug(card Card) error {
	if c := n.cards[card.Address]; c != nil && c.Partial {
		return fmt.Errorf("simulated node: %w", c.partial())
	} else if c != nil {
		return fmt.Errorf("simulated node: slot %s: found a card, want an empty slot", card.Address)
	}
	id, err := card.pciID()
	if err != nil {
		return fmt.Errorf("simulated node: plug %s: %w", card.Address, err)
	}
	c := &plugged{Card: card, Partial: true}
	switch {
	case card.Group != "":
		n.addFunction(c)
	case card.Slot == "":
		n.addCard(c)
	}
	n.cards[card.Address] = c
	if err = n.save(); err == nil {
		err = n.plug(c, id)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("simulated node: plug %s: %w", card.Address, err), n.unplugAll([]*plugged{c}))
	}
	c.Partial = false
	return n.save()
}

// addCard gives a card the DFL driver's lowest free numbers.
func (n *Node) addCard(c *plugged) {
	free := n.free(regions, 2)
	c.Region, c.PortNumbers, c.AFUs = free[0], n.free(ports, c.Ports), slices.Repeat([]string{c.AFUID}, c.Ports)
	if c.PhysFn == "" {
		c.FME, c.Child, c.Manager = n.free(fmes, 1)[0], free[1], n.free(managers, 1)[0]
		c.HWMon = n.free(hwmons, len(sensors)+1)
	}
}

func (n *Node) plug(c *plugged, id pciID) error {
	dir := n.CardDir(c.Address)
	t := n.tree()
	plugPCI(t, dir, c, id)
	if c.Function != nil {
		n.plugFunction(t, c)
		return t.err
	}
	if c.Slot != "" {
		n.plugSlot(t, c)
		return t.err
	}
	t.link(n.sys("bus/pci/drivers/dfl-pci"), filepath.Join(dir, "driver"))
	if c.PhysFn != "" {
		t.link(n.CardDir(c.PhysFn), filepath.Join(dir, "physfn"))
	}
	t.link(dir, n.sys(busDir, c.Address))

	region := n.regionDir(c)
	t.link(dir, filepath.Join(region, "device"))
	t.link(region, n.sys(regionClass, "region"+strconv.Itoa(c.Region)))
	if c.PhysFn == "" {
		n.plugFME(t, c)
	}
	for i, number := range c.PortNumbers {
		n.plugPort(t, c, i, number)
	}
	return t.err
}

func (n *Node) plugPort(t *tree, c *plugged, port, number int) {
	dir := filepath.Join(n.regionDir(c), "dfl-port."+strconv.Itoa(number))
	n.addPort(t, dir, number)
	n.bind(t, dir, port, c.AFUs[port])
}

// addPort creates the files of a port that doesn't have a driver.
func (n *Node) addPort(t *tree, dir string, number int) {
	name := filepath.Base(dir)
	major, _ := n.majors()
	t.file(filepath.Join(dir, "dev"), fmt.Sprintf("%d:%d\n", major, number))
	n.node(t, name, major, number)
	t.file(filepath.Join(dir, "uevent"), "DEVNAME="+name+"\n")
}

// bind creates the files that a driver adds to a port, ending with the driver link.
func (n *Node) bind(t *tree, dir string, port int, afu string) {
	t.file(filepath.Join(dir, "id"), strconv.Itoa(port)+"\n")
	t.file(filepath.Join(dir, "afu_id"), afu+"\n")
	t.file(filepath.Join(dir, "power_state"), "0x0\n")
	t.file(filepath.Join(dir, "errors/errors"), "0x0\n")
	t.link(n.sys(driverDir, "dfl-port"), filepath.Join(dir, "driver"))
}

// Unplug pulls a card. It removes the card's parts in the kernel's order: virtual functions, the devices below the FME,
// the FME, the ports, and the card itself. A part's device node and links are removed before the part. Functions that
// share the card's group, and an AWS card's other function, are pulled before the card. If a process is using a
// function's group, that function and everything after it wait for EndUse.
func (n *Node) Unplug(address string) error {
	c := n.cards[address]
	if c == nil {
		return fmt.Errorf("simulated node: slot %s: found no card", address)
	}
	var all []*plugged
	for _, other := range slices.Sorted(maps.Keys(n.cards)) {
		o := n.cards[other]
		together := o.Group == SlotGroup && c.Group == SlotGroup || o.Slot != "" && c.Slot != ""
		if o.PhysFn == address || o != c && together && slotOf(other) == slotOf(address) {
			all = append(all, o)
		}
	}
	slices.Reverse(all)
	return n.unplugAll(append(all, c))
}

// unplugAll pulls cards one at a time, in order.
func (n *Node) unplugAll(cards []*plugged) error {
	if len(cards) == 0 {
		return nil
	}
	c, rest := cards[0], func() error { return n.unplugAll(cards[1:]) }
	if c.Function != nil {
		if err := n.unplugFunction(c, rest); err != nil {
			return fmt.Errorf("simulated node: unplug %s: %w", c.Address, err)
		}
		return nil
	}
	if err := n.unplug(c); err != nil {
		return fmt.Errorf("simulated node: unplug %s: %w", c.Address, err)
	}
	delete(n.cards, c.Address)
	if err := n.save(); err != nil {
		return err
	}
	return rest()
}

func (n *Node) unplug(c *plugged) error {
	c.Partial = true
	if err := n.directories.retire(n.CardDir(c.Address)); err != nil {
		return err
	}
	if err := n.save(); err != nil {
		return err
	}
	var gone []string
	if c.Slot == "" && c.PhysFn == "" {
		fme := "dfl-fme." + strconv.Itoa(c.FME)
		gone = append(gone,
			n.sys(regionClass, "region"+strconv.Itoa(c.Child)), n.sys(managerClass, "fpga"+strconv.Itoa(c.Manager)),
			filepath.Join(n.Dev, fme), filepath.Join(n.regionDir(c), fme))
		for _, number := range c.HWMon {
			gone = append(gone, n.sys(hwmonClass, "hwmon"+strconv.Itoa(number)))
		}
	}
	for _, number := range c.PortNumbers {
		port := "dfl-port." + strconv.Itoa(number)
		gone = append(gone, filepath.Join(n.Dev, port), filepath.Join(n.regionDir(c), port))
	}
	if c.Slot == "" {
		gone = append(gone, n.sys(regionClass, "region"+strconv.Itoa(c.Region)))
	}
	gone = append(gone, n.sys(busDir, c.Address), n.CardDir(c.Address))
	for _, path := range gone {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// Unbind unbinds a port's driver. The driver's attributes are removed; the port's directory stays.
func (n *Node) Unbind(address string, port int) error {
	dir := n.PortDir(address, port)
	for _, name := range []string{"driver", "afu_id", "power_state", "errors", "id"} {
		if err := n.directories.removeAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("simulated node: unbind %s port %d: %w", address, port, err)
		}
	}
	return nil
}

// Bind rebinds a port's driver.
func (n *Node) Bind(address string, port int) error {
	t := n.tree()
	n.bind(t, n.PortDir(address, port), port, n.cards[address].AFUs[port])
	return t.err
}

// Release releases a port as DFL_FPGA_FME_PORT_RELEASE does: it removes the device node and then the directory. The
// port keeps its number.
func (n *Node) Release(address string, port int) error {
	dir := n.PortDir(address, port)
	err := os.Remove(filepath.Join(n.Dev, filepath.Base(dir)))
	if err == nil {
		err = n.directories.removeAll(dir)
	}
	if err != nil {
		return fmt.Errorf("simulated node: release %s port %d: %w", address, port, err)
	}
	return nil
}

// Assign gives a released port back to its card as DFL_FPGA_FME_PORT_ASSIGN does. The port then has a device node but
// no driver.
func (n *Node) Assign(address string, port int) error {
	t := n.tree()
	n.addPort(t, n.PortDir(address, port), n.cards[address].PortNumbers[port])
	if t.err != nil {
		return fmt.Errorf("simulated node: assign %s port %d: %w", address, port, t.err)
	}
	return nil
}
