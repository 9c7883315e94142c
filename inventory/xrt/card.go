package xrt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// card is a card's user function, along with the management function in its slot.
type card struct {
	pci.Virtual
	dir         string
	incarnation uint64

	// Paths below dir, or "" if they don't exist. Subdevice names end in a number assigned by the driver.
	rom, firewall, sensors string
	render                 string   // the render node: drm/renderDN
	queues                 []string // the QDMA nodes: dma.qdma.u.N/xrt_user/xfpga!dma.qdma.uM.0

	management string // the management function's directory; "" if this host doesn't have it

	// observed contains an observation of each of these entries. Each observation was made before its entry was looked
	// up or read, so that a later check notices any change since then.
	observed []sysfs.Observation
}

// find returns the card of the user function with this PCI address. It reads only directories and links. The error
// wraps fs.ErrNotExist if the function isn't bound to xocl or hasn't finished binding.
func find(host sysfs.Host, address string) (c card, err error) {
	if c.dir, err = host.PCIDir(address); err != nil {
		return c, err
	}
	// user_pf shows that the function has finished binding: xocl creates it last, and doesn't remove it until the
	// function is unbound.
	c.observed = append(c.observed, sysfs.ObserveEntry(c.dir+"/driver"), sysfs.ObserveEntry(c.dir+"/user_pf"))
	if err := pci.CheckBound(c.dir, xocl); err != nil {
		return c, err
	}
	if _, err := os.Lstat(c.dir + "/user_pf"); err != nil {
		return c, err
	}
	if c.incarnation, err = sysfs.Inode(c.dir); err != nil {
		return c, err
	}
	if c.Virtual, err = pci.VirtualOf(c.dir); err != nil {
		return c, err
	}
	if err := c.findSubdevices(); err != nil {
		return c, err
	}
	c.management, err = c.findManagement(host, address)
	return c, err
}

// findSubdevices finds the user function's directories and nodes.
func (c *card) findSubdevices() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case !e.IsDir():
		case strings.HasPrefix(name, "rom.u."):
			c.rom = name
		case strings.HasPrefix(name, "firewall.u."):
			c.firewall = name
		case strings.HasPrefix(name, "hwmon_sdm.u."):
			c.sensors = name
		case strings.HasPrefix(name, "dma.qdma.u."):
			nodes, err := c.entries(name+"/xrt_user", "xfpga!dma.qdma.u")
			if err != nil {
				return err
			}
			c.queues = append(c.queues, nodes...)
		}
	}
	nodes, err := c.entries("drm", "renderD")
	if len(nodes) > 0 {
		c.render = nodes[0]
	}
	return err
}

// entries returns the paths, relative to c.dir, of a directory's entries with this prefix, and observes them. A
// directory that doesn't exist has no entries.
func (c *card) entries(dir, prefix string) (paths []string, err error) {
	all, err := os.ReadDir(c.dir + "/" + dir)
	if err != nil && !sysfs.Gone(err) {
		return nil, err
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := dir + "/" + e.Name()
		c.observed = append(c.observed, sysfs.ObserveEntry(c.dir+"/"+path))
		switch _, err := os.Lstat(c.dir + "/" + path); { // it may have disappeared before the observation
		case err == nil:
			paths = append(paths, path)
		case sysfs.IsShortage(err):
			return nil, err
		}
	}
	return paths, nil
}

// findManagement returns the directory of the management function in the user function's slot, or "" if there is none,
// as in a virtual machine.
func (c *card) findManagement(host sysfs.Host, address string) (string, error) {
	for _, other := range others(address) {
		dir, err := host.PCIDir(other)
		if err == nil {
			var driver string
			link := sysfs.ObserveEntry(dir + "/driver")
			if driver, err = pci.DriverOf(dir); driver == xclmgmt {
				c.observed = append(c.observed, link)
				return dir, nil
			}
		}
		if err != nil && !sysfs.Gone(err) {
			return "", err
		}
	}
	return "", nil
}

// unit returns the card's unit without its health and attributes, and all of the card's nodes. The only errors are
// shortages ([sysfs.IsShortage]).
func (f Family) unit(address string, c card) (u inventory.Unit, nodes []pci.DeviceNode, err error) {
	u = inventory.Unit{
		ID: strings.TrimPrefix(address, "0000:"), PCIAddress: address, Name: address, Incarnation: c.incarnation,
		Facts: inventory.Facts{PortID: -1, NUMANode: -1, NamedByShell: true}, AFUIDKnown: true,
	}
	c.Describe(&u)
	add := func(name, dir string) {
		n := pci.ReadDeviceNode(name, dir)
		nodes = append(nodes, n)
		u.Nodes = append(u.Nodes, name)
		u.NodeNumbers = n.AppendNumber(u.NodeNumbers)
	}
	if c.render != "" {
		add("dri/"+filepath.Base(c.render), c.dir+"/"+c.render)
	}
	for _, q := range c.queues {
		add(strings.Replace(filepath.Base(q), "!", "/", 1), c.dir+"/"+q) // the kernel writes / as ! in names
	}
	if !f.Management || c.management == "" {
		return u, nodes, pci.Shortage(nodes)
	}
	entries, err := os.ReadDir(c.management + "/xrt_mgmt")
	if sysfs.IsShortage(err) {
		return u, nodes, err
	}
	for _, e := range entries {
		if sysfs.Numbered(e.Name(), "xclmgmt") {
			add(e.Name(), c.management+"/xrt_mgmt/"+e.Name())
		}
	}
	return u, nodes, pci.Shortage(nodes)
}

// others returns the addresses of the other functions in the same slot.
func others(address string) (all []string) {
	slot, _, _ := strings.Cut(address, ".")
	for n := range 8 {
		if other := fmt.Sprintf("%s.%d", slot, n); other != address {
			all = append(all, other)
		}
	}
	return all
}
