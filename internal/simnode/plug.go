package simnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Plug puts a card in. Its numbers are the lowest free ones, as in the kernel.
func (n *Node) Plug(card Card) error {
	if n.cards[card.Address] != nil {
		return fmt.Errorf("simulated node: slot %s is taken", card.Address)
	}
	c := &plugged{Card: card}
	c.region = lowestFree(func(i int) bool { return n.takenRegion(i) || n.takenRegion(i+1) })
	c.fme = lowestFree(n.takenFME)
	n.cards[card.Address] = c
	for range card.Ports {
		c.ports = append(c.ports, lowestFree(n.takenPort))
	}
	if err := n.plug(c); err != nil {
		return fmt.Errorf("simulated node: plug %s: %w", card.Address, err)
	}
	return nil
}

func (n *Node) plug(c *plugged) error {
	dir := n.CardDir(c.Address)
	t := tree{}
	t.file(filepath.Join(dir, "vendor"), "0x8086\n")
	t.file(filepath.Join(dir, "device"), "0x09c4\n")
	t.file(filepath.Join(dir, "class"), "0x120000\n")
	t.file(filepath.Join(dir, "numa_node"), strconv.Itoa(c.NUMANode)+"\n")
	t.link(n.sys("bus/pci/drivers/dfl-pci"), filepath.Join(dir, "driver"))
	if c.PhysFn != "" {
		t.link(n.CardDir(c.PhysFn), filepath.Join(dir, "physfn"))
	}
	t.link(dir, n.sys(busDir, c.Address))

	region := n.regionDir(c)
	t.link(dir, filepath.Join(region, "device"))
	t.link(region, n.sys(classDir, "region"+strconv.Itoa(c.region)))
	if c.PhysFn == "" {
		n.plugFME(&t, c)
	}
	for i, number := range c.ports {
		n.plugPort(&t, c, i, number)
	}
	return t.err
}

func (n *Node) plugFME(t *tree, c *plugged) {
	name := "dfl-fme." + strconv.Itoa(c.fme)
	fme := filepath.Join(n.regionDir(c), name)
	t.file(filepath.Join(fme, "dev"), "246:"+strconv.Itoa(c.fme)+"\n")
	t.file(filepath.Join(fme, "bitstream_id"), "0x123000200000185\n")
	t.file(filepath.Join(fme, "ports_num"), strconv.Itoa(c.Ports)+"\n")
	child := "region" + strconv.Itoa(c.region+1)
	region := filepath.Join(fme, "dfl-fme-region."+strconv.Itoa(c.region), "fpga_region", child)
	t.file(filepath.Join(region, "compat_id"), c.InterfaceID+"\n")
	t.link(filepath.Dir(filepath.Dir(region)), filepath.Join(region, "device"))
	t.link(region, n.sys(classDir, child))
	t.link(n.sys(driverDir, "dfl-fme"), filepath.Join(fme, "driver"))
	t.file(filepath.Join(n.Dev, name), "")
}

func (n *Node) plugPort(t *tree, c *plugged, port, number int) {
	name := "dfl-port." + strconv.Itoa(number)
	dir := filepath.Join(n.regionDir(c), name)
	t.file(filepath.Join(dir, "dev"), "245:"+strconv.Itoa(number)+"\n")
	t.file(filepath.Join(n.Dev, name), "")
	t.file(filepath.Join(dir, "uevent"), "DEVNAME="+name+"\n")
	n.bind(t, dir, port, c.AFUID)
}

// bind makes what exists from bind on, the driver link last.
func (n *Node) bind(t *tree, dir string, port int, afu string) {
	t.file(filepath.Join(dir, "id"), strconv.Itoa(port)+"\n")
	t.file(filepath.Join(dir, "afu_id"), afu+"\n")
	t.file(filepath.Join(dir, "power_state"), "0x0\n")
	t.file(filepath.Join(dir, "errors/errors"), "0x0\n")
	t.link(n.sys(driverDir, "dfl-port"), filepath.Join(dir, "driver"))
}

// Unplug pulls a card out: nodes, then links, then directories.
func (n *Node) Unplug(address string) error {
	c := n.cards[address]
	if c == nil {
		return fmt.Errorf("simulated node: slot %s is empty", address)
	}
	delete(n.cards, address)
	gone := []string{}
	for _, number := range c.ports {
		gone = append(gone, filepath.Join(n.Dev, "dfl-port."+strconv.Itoa(number)))
	}
	gone = append(gone, n.sys(classDir, "region"+strconv.Itoa(c.region)), n.sys(busDir, address))
	if c.PhysFn == "" {
		gone = append(gone, filepath.Join(n.Dev, "dfl-fme."+strconv.Itoa(c.fme)), n.sys(classDir, "region"+strconv.Itoa(c.region+1)))
	}
	for _, path := range gone {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("simulated node: unplug %s: %w", address, err)
		}
	}
	if err := os.RemoveAll(n.CardDir(address)); err != nil {
		return fmt.Errorf("simulated node: unplug %s: %w", address, err)
	}
	return nil
}

// Unbind takes the driver off a port: its attributes go, the directory stays.
func (n *Node) Unbind(address string, port int) error {
	dir := n.PortDir(address, port)
	for _, name := range []string{"driver", "afu_id", "power_state", "errors", "id"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("simulated node: unbind %s port %d: %w", address, port, err)
		}
	}
	return nil
}

// Bind gives a port its driver back.
func (n *Node) Bind(address string, port int) error {
	var t tree
	n.bind(&t, n.PortDir(address, port), port, n.cards[address].AFUID)
	return t.err
}

// tree makes files and links and keeps the first error.
type tree struct{ err error }

func (t *tree) file(path, content string) {
	if t.err == nil {
		t.err = writeFile(path, content)
	}
}

func (t *tree) link(target, path string) {
	if t.err != nil {
		return
	}
	if t.err = os.MkdirAll(filepath.Dir(path), 0o755); t.err != nil {
		return
	}
	// As the kernel writes it: up to the target's parent, then down, so that the
	// link ends in the target's name even where the target is an ancestor.
	parent, err := filepath.Rel(filepath.Dir(path), filepath.Dir(target))
	if err != nil {
		t.err = err
		return
	}
	t.err = os.Symlink(filepath.Join(parent, filepath.Base(target)), path)
}

func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
