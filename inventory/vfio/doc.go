// Package vfio is the family for PCI functions bound to vfio-pci, which are used by user-space programs and virtual
// machines.
//
// A device is an IOMMU group, because the kernel lets only one process at a time open a group. Its id is the address of
// the group's lowest function bound to vfio-pci. The group is unhealthy while any of its functions is bound to a driver
// other than pcieport, pci-stub or a VFIO driver. NICs and graphics cards may also be bound to vfio-pci, so a device is
// offered only if one of the administrator's rules gives it a resource name.
//
// The package doesn't open any devices. It never reads uevent, driver_override or sriov_numvfs, because that would
// block on a lock that the kernel holds while unbinding a function whose group is open.
//
// The package owns no state. Listing cards reads only directories and links. Reading a card may block for as long as
// the function doesn't respond.
package vfio
