// Package vfio is the family of PCI functions that are bound to vfio-pci, for programs in user space and
// for virtual machines.
//
// A device is an IOMMU group, because the kernel lets one process at a time open a group. Its id is the address of the
// lowest function of the group that is bound to vfio-pci. The group is unhealthy while one of its functions is bound to
// another driver, unless that is pcieport, pci-stub or a driver of VFIO. NICs and graphics cards may also be bound to
// vfio-pci, so a device is offered only if a rule of the administrator names it.
//
// The package opens no device. It never reads uevent, driver_override and sriov_numvfs: such a read waits
// for a lock that the kernel holds while it unbinds a function whose group is open.
//
// The package owns no state. Listing cards reads only directories and links. Reading a card may block as
// long as the function does not answer.
package vfio
