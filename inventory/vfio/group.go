package vfio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// group is an IOMMU group that has a function bound to vfio-pci.
type group struct {
	dir     string
	number  string // the kernel reuses these numbers
	noIOMMU bool
	names   []string // all members, sorted; PCI addresses, or names of devices on other buses
	drivers []string // the driver of each member in names, or "" if it has none

	lowest string     // address of the lowest member bound to vfio-pci
	bound  []function // all members bound to vfio-pci, lowest first; empty if find's address isn't the lowest

	// observed contains all observations of the group's files; it is incomplete if bound is empty. Each observation was
	// made before its file was read, so that a later check also finds a change in between.
	observed []sysfs.Observation

	node  string // name of the group's node in /dev/vfio
	class bool   // the node is in the vfio class
}

// function is a group member that is bound to vfio-pci.
type function struct {
	pci.Virtual
	address     string
	dir         string
	incarnation uint64
	cdevs       []string // directories of its vfio-dev class devices, which exist since Linux 6.1
}

// find returns the group of the function with this PCI address. It reads only directories, links and the group's name.
// If a lower function in the group is bound to vfio-pci, find returns only that function's address, in the lowest
// field. The error wraps fs.ErrNotExist if the function isn't bound to vfio-pci.
func find(host sysfs.Host, address string) (g group, err error) {
	dir, err := host.PCIDir(address)
	if err != nil {
		return g, err
	}
	g.observed = append(g.observed, sysfs.ObserveEntry(dir))
	if err := pci.CheckBound(dir, vfioPCI); err != nil {
		return g, err
	}
	link, err := os.Readlink(dir + "/iommu_group")
	if err != nil {
		return g, err
	}
	g.number = filepath.Base(link)
	g.dir = host.Sys + "/kernel/iommu_groups/" + g.number
	if err := g.findMembers(host, address); err != nil {
		return g, err
	}
	if g.lowest != "" {
		return group{lowest: g.lowest}, nil
	}
	if len(g.bound) == 0 || g.bound[0].address != address {
		return g, fmt.Errorf("%s: found no member %s: %w", g.dir, address, fs.ErrNotExist)
	}
	g.lowest = address
	g.observed = append(g.observed, sysfs.ObserveNames(g.dir+"/devices", g.names))
	if err := g.findNode(host, dir); err != nil {
		return g, err
	}
	g.bound[0].Virtual, err = pci.VirtualOf(dir)
	return g, err
}

// findMembers adds the group's members. If a member with a lower address is bound to vfio-pci, it sets lowest and
// returns.
func (g *group) findMembers(host sysfs.Host, address string) error {
	members, err := os.ReadDir(g.dir + "/devices")
	if err != nil {
		return err
	}
	for _, m := range members {
		path := g.dir + "/devices/" + m.Name()
		g.observed = append(g.observed, sysfs.ObserveEntry(path+"/driver"))
		driver, err := pci.DriverOf(path)
		if err != nil {
			return err
		}
		g.names, g.drivers = append(g.names, m.Name()), append(g.drivers, driver)
		if driver != vfioPCI {
			continue
		}
		if m.Name() < address {
			g.lowest = m.Name()
			return nil
		}
		f, err := functionOf(host, m.Name())
		switch {
		case err == nil:
			g.bound = append(g.bound, f)
		case m.Name() == address || !sysfs.Gone(err): // another member may have left in the meantime
			return err
		}
	}
	return nil
}

// findNode finds the group's device node. dir is the directory of the group's lowest function bound to vfio-pci. The
// error wraps fs.ErrNotExist if vfio hasn't registered a device node for the group or the function yet.
func (g *group) findNode(host sysfs.Host, dir string) error {
	name, err := sysfs.Read(g.dir + "/name")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	g.node = g.number
	if g.noIOMMU = name == "vfio-noiommu"; g.noIOMMU { // vfio_noiommu_group_alloc, drivers/vfio/group.c
		g.node = "noiommu-" + g.number
	}
	switch _, err := os.Lstat(host.Sys + "/class/vfio/" + g.node); {
	case err == nil:
		g.class = true
	case sysfs.IsShortage(err):
		return err
	case len(g.bound[0].cdevs) == 0:
		// The driver link alone doesn't mean that vfio has registered the function, because the driver core creates the
		// link before it calls the driver.
		return fmt.Errorf("%s: not yet registered with vfio: %w", dir, fs.ErrNotExist)
	}
	return nil
}

// functionOf returns the function with this PCI address. It doesn't set the index of a virtual function.
func functionOf(host sysfs.Host, address string) (f function, err error) {
	f.address = address
	if f.dir, err = host.PCIDir(address); err != nil {
		return f, err
	}
	if f.incarnation, err = sysfs.Inode(f.dir); err != nil {
		return f, err
	}
	if f.PhysFn, err = sysfs.PhysFn(f.dir); err != nil {
		return f, err
	}
	entries, err := os.ReadDir(f.dir + "/vfio-dev")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	for _, e := range entries {
		f.cdevs = append(f.cdevs, f.dir+"/vfio-dev/"+e.Name())
	}
	return f, nil
}

// others returns the addresses of all PCI functions in the group except the lowest one bound to vfio-pci.
func (g group) others() (addresses []string) {
	for _, name := range g.names {
		if address, err := sysfs.ParsePCIAddress(name); err == nil && address != g.lowest {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// related returns the addresses of functions whose events also concern the group's lowest function bound to vfio-pci.
// These are the other members and the physical functions of virtual members. For a member that isn't virtual, all
// functions in its slot count as well, because the kernel adds those to the group one by one.
func (g group) related() []string {
	all := g.others()
	for _, f := range g.bound {
		if f.PhysFn != "" {
			all = append(all, f.PhysFn)
			continue
		}
		slot, _, _ := strings.Cut(f.address, ".")
		for n := range 8 {
			all = append(all, fmt.Sprintf("%s.%d", slot, n))
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(address string) bool { return address == g.lowest })
}
