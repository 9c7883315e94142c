package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Plug puts a card in. Its numbers are the lowest free ones, as in the kernel.
func (n *Node) Plug(card Card) error {
	if n.cards[card.Address] != nil {
		return fmt.Errorf("simulated node: slot %s is taken", card.Address)
	}
	id, err := card.pciID()
	if err != nil {
		return fmt.Errorf("simulated node: plug %s: %w", card.Address, err)
	}
	c := &plugged{Card: card, region: n.regions.take()}
	if card.PhysFn == "" {
		c.fme, c.child, c.manager = n.fmes.take(), n.regions.take(), n.managers.take()
		c.hwmon = [2]int{n.hwmons.take(), n.hwmons.take()}
	}
	for range card.Ports {
		c.ports = append(c.ports, n.ports.take())
		c.afu = append(c.afu, card.AFUID)
	}
	n.cards[card.Address] = c
	if err := n.plug(c, id); err != nil {
		return fmt.Errorf("simulated node: plug %s: %w", card.Address, err)
	}
	return nil
}

func (n *Node) plug(c *plugged, id pciID) error {
	dir := n.CardDir(c.Address)
	t := n.tree()
	t.spares = filepath.Join(n.spares, c.Address)
	plugPCI(t, dir, c, id)
	t.link(n.sys("bus/pci/drivers/dfl-pci"), filepath.Join(dir, "driver"))
	if c.PhysFn != "" {
		t.link(n.CardDir(c.PhysFn), filepath.Join(dir, "physfn"))
	}
	t.link(dir, n.sys(busDir, c.Address))

	region := n.regionDir(c)
	t.link(dir, filepath.Join(region, "device"))
	t.link(region, n.sys(regionClass, "region"+strconv.Itoa(c.region)))
	if c.PhysFn == "" {
		n.plugFME(t, c)
	}
	for i, number := range c.ports {
		n.plugPort(t, c, i, number)
	}
	return t.err
}

func (n *Node) plugPort(t *tree, c *plugged, port, number int) {
	dir := filepath.Join(n.regionDir(c), "dfl-port."+strconv.Itoa(number))
	n.addPort(t, dir, number)
	n.bind(t, dir, port, c.afu[port])
}

// addPort makes the files that a port has before a driver is bound.
func (n *Node) addPort(t *tree, dir string, number int) {
	name := filepath.Base(dir)
	major, _ := n.majors()
	t.file(filepath.Join(dir, "dev"), fmt.Sprintf("%d:%d\n", major, number))
	n.node(t, name, major, number)
	t.file(filepath.Join(dir, "uevent"), "DEVNAME="+name+"\n")
}

// bind makes what exists from bind on, the driver link last.
func (n *Node) bind(t *tree, dir string, port int, afu string) {
	// These are no parts: users write to them in place, and ports would share them.
	t.file(filepath.Join(dir, "id"), strconv.Itoa(port)+"\n")
	t.file(filepath.Join(dir, "afu_id"), afu+"\n")
	t.file(filepath.Join(dir, "power_state"), "0x0\n")
	t.file(filepath.Join(dir, "errors/errors"), "0x0\n")
	t.link(n.sys(driverDir, "dfl-port"), filepath.Join(dir, "driver"))
}

// Unplug pulls a card out, in the order of the kernel: what is below the FME, the
// FME, the ports, the card; of each the node and the links first.
func (n *Node) Unplug(address string) error {
	c := n.cards[address]
	if c == nil {
		return fmt.Errorf("simulated node: slot %s is empty", address)
	}
	delete(n.cards, address)
	var gone []string
	if c.PhysFn == "" {
		fme := "dfl-fme." + strconv.Itoa(c.fme)
		gone = append(gone,
			n.sys(regionClass, "region"+strconv.Itoa(c.child)), n.sys(managerClass, "fpga"+strconv.Itoa(c.manager)),
			n.sys(hwmonClass, "hwmon"+strconv.Itoa(c.hwmon[0])), n.sys(hwmonClass, "hwmon"+strconv.Itoa(c.hwmon[1])),
			filepath.Join(n.Dev, fme), filepath.Join(n.regionDir(c), fme))
		n.fmes.free(c.fme)
		n.regions.free(c.child)
		n.managers.free(c.manager)
		n.hwmons.free(c.hwmon[:]...)
	}
	for _, number := range c.ports {
		port := "dfl-port." + strconv.Itoa(number)
		gone = append(gone, filepath.Join(n.Dev, port), filepath.Join(n.regionDir(c), port))
	}
	n.ports.free(c.ports...)
	n.regions.free(c.region)
	gone = append(gone, n.sys(regionClass, "region"+strconv.Itoa(c.region)), n.sys(busDir, address), n.CardDir(address))
	for _, path := range gone {
		if err := n.directories.removeAll(path); err != nil {
			return fmt.Errorf("simulated node: unplug %s: %w", address, err)
		}
	}
	return nil
}

// Unbind takes the driver off a port: its attributes go, the directory stays.
func (n *Node) Unbind(address string, port int) error {
	dir := n.PortDir(address, port)
	for _, name := range []string{"driver", "afu_id", "power_state", "errors", "id"} {
		if err := n.directories.removeAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("simulated node: unbind %s port %d: %w", address, port, err)
		}
	}
	return nil
}

// Bind gives a port its driver back.
func (n *Node) Bind(address string, port int) error {
	t := n.tree()
	n.bind(t, n.PortDir(address, port), port, n.cards[address].afu[port])
	return t.err
}

// Release takes a port off its card as DFL_FPGA_FME_PORT_RELEASE does: it removes the
// node, then the directory. The port keeps its number.
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

// Assign gives a port back to its card as DFL_FPGA_FME_PORT_ASSIGN does: the port has a
// node and no driver.
func (n *Node) Assign(address string, port int) error {
	t := n.tree()
	n.addPort(t, n.PortDir(address, port), n.cards[address].ports[port])
	if t.err != nil {
		return fmt.Errorf("simulated node: assign %s port %d: %w", address, port, t.err)
	}
	return nil
}
