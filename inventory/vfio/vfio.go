package vfio

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// Family reads IOMMU groups that have functions bound to vfio-pci.
type Family struct {
	// Cdev adds the functions' character devices and /dev/iommu, if the kernel has them.
	Cdev bool
}

// vfioPCI is the driver of the functions that this family reads.
const vfioPCI = "vfio-pci"

// harmless reports whether a group can be used while one of its functions has this driver, or no driver if driver is
// "". A harmless driver doesn't use the kernel's DMA API (driver_managed_dma in drivers/pci/pcie/portdrv.c,
// drivers/pci/pci-stub.c and all VFIO drivers, such as mlx5_vfio_pci).
func harmless(driver string) bool {
	return driver == "" || driver == "pcieport" || driver == "pci-stub" || strings.Contains(driver, "vfio")
}

// Health rows of this family, in addition to the rows in package pci.
var (
	rowNotViable = inventory.Row{Name: "group-not-viable", Health: inventory.Unhealthy} // =DRIVER of one of the group's functions
	rowNoIOMMU   = inventory.Row{Name: "no-iommu", Health: inventory.Unhealthy}         // the group has no IOMMU
)

// Name returns vfio.
func (Family) Name() string { return "vfio" }

// Signals returns the subsystem of the functions' character devices, and the device node prefixes. When a function is
// unbound while its group is open, Linux 6.12 sends only that subsystem's event, and Linux 6.1 sends none at all.
func (f Family) Signals() inventory.Signals {
	s := inventory.Signals{Subsystems: []string{"vfio-dev"}, Nodes: []string{"vfio/"}}
	if f.Cdev {
		s.Nodes = append(s.Nodes, "vfio/devices/")
	}
	return s
}

// Rows returns the health table.
func (Family) Rows() []inventory.Row { return append(pci.Rows(), rowNotViable, rowNoIOMMU) }

// Cards lists the PCI addresses of all functions bound to vfio-pci.
func (Family) Cards(host sysfs.Host) ([]string, error) { return pci.BoundTo(host, vfioPCI) }

// Read reads the group of the function with this PCI address. If a lower function in the group is bound to vfio-pci,
// the unit belongs to that function, so the reading has no units and Related contains that function's address.
func (f Family) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	g, err := find(host, card)
	if err != nil {
		return inventory.Reading{}, err
	}
	if g.lowest != card {
		return inventory.Reading{Related: []string{g.lowest}}, nil
	}
	u, nodes, err := f.unit(host, g)
	if err != nil {
		return inventory.Reading{}, err
	}
	all := pci.NewFindings()
	all.Observed = g.observed
	for _, other := range g.drivers {
		if !harmless(other) {
			all.AddValue(rowNotViable, other)
		}
	}
	if g.noIOMMU {
		all.AddRow(rowNoIOMMU)
	}
	for _, n := range nodes {
		all.CheckNode(host, n, n.Name+"/dev")
	}
	judged := make(map[string]bool) // by directory, because virtual functions share a physical function
	for _, b := range g.bound {
		function := pci.Read(host, b.dir, b.Virtual)
		if b.address == card {
			function.Describe(&u)
		} else {
			function.Prefix(b.address + "/")
		}
		if !judged[function.Dir] {
			judged[function.Dir] = true
			all.Join(&function.Findings)
		}
	}
	u.Conditions, u.Files, u.Counters = all.Conditions, all.Files, all.Counters
	r := inventory.Reading{Related: g.related(), Units: []inventory.Unit{u}, Observed: all.Observed}
	// The kernel removes the driver link before the nodes, so a node that is missing because the function is being
	// unbound fails the reading here and doesn't become a condition.
	return r, pci.CheckBound(g.bound[0].dir, vfioPCI)
}

// Outline returns the unit without its health, using only directories, links and device numbers, which the driver core
// stores.
func (f Family) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	g, err := find(host, card)
	if err != nil {
		return inventory.Reading{}, err
	}
	if g.lowest != card {
		return inventory.Reading{Related: []string{g.lowest}}, nil
	}
	u, _, err := f.unit(host, g)
	return inventory.Reading{Related: g.related(), Units: []inventory.Unit{u}}, err
}

// unit returns a group's unit without its health, and all of the group's nodes. The only errors are shortages
// ([sysfs.IsShortage]).
func (f Family) unit(host sysfs.Host, g group) (u inventory.Unit, nodes []pci.DeviceNode, err error) {
	low := g.bound[0]
	u = inventory.Unit{
		ID: strings.TrimPrefix(low.address, "0000:"), PCIAddress: low.address, Name: low.address, Incarnation: low.incarnation,
		AFUIDKnown: true, InterfaceIDKnown: true,
		Facts: inventory.Facts{
			PortID: -1, NUMANode: -1, Members: g.others(), Attributes: map[string]string{"iommuGroup": g.number},
			OnlyByRule: true, AddressEnv: []string{"PCIDEVICE_", "PCI_RESOURCE_"}, // used by sriov-network-device-plugin and KubeVirt
		},
	}
	low.Describe(&u)
	add := func(name, dir string) { nodes = append(nodes, pci.ReadDeviceNode(name, dir)) }
	if g.class {
		add("vfio/"+g.node, host.Sys+"/class/vfio/"+g.node)
	}
	cdev := false
	for _, b := range g.bound {
		for _, dir := range b.cdevs {
			if _, err := os.Lstat(dir + "/dev"); f.Cdev && err == nil {
				add("vfio/devices/"+filepath.Base(dir), dir)
				cdev = true
			}
		}
	}
	if len(nodes) == 0 { // the kernel provides only character devices
		nodes = append(nodes, pci.DeviceNode{Name: "vfio/" + g.node, Err: fs.ErrNotExist})
	}
	for _, n := range nodes {
		u.Nodes = append(u.Nodes, n.Name)
		u.NodeNumbers = n.AppendNumber(u.NodeNumbers)
	}
	if g.class {
		u.SharedNodes = append(u.SharedNodes, "vfio/vfio")
		add("vfio/vfio", host.Sys+"/class/misc/vfio")
	}
	if cdev {
		u.SharedNodes = append(u.SharedNodes, "iommu")
		add("iommu", host.Sys+"/class/misc/iommu")
	}
	return u, nodes, pci.Shortage(nodes)
}
