package pci

import (
	"errors"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// DeviceNode is a device node and its number. Reading the number doesn't access the hardware, because the driver core
// stores it.
type DeviceNode struct {
	Name   string // below the device root
	number sysfs.DeviceNumber
	Err    error // error from reading the number
}

// ReadDeviceNode returns the node with this name. It reads the node's number from dir, the device's directory in sysfs.
func ReadDeviceNode(name, dir string) DeviceNode {
	number, err := sysfs.ReadAs(dir+"/dev", sysfs.ParseDeviceNumber)
	return DeviceNode{name, number, err}
}

// AppendNumber appends the node's number to numbers, if the number is known.
func (n DeviceNode) AppendNumber(numbers []string) []string {
	if n.Err != nil {
		return numbers
	}
	return append(numbers, n.number.String())
}

// Shortage returns the first shortage ([sysfs.IsShortage]) among the nodes' errors, or nil.
func Shortage(nodes []DeviceNode) error {
	for _, n := range nodes {
		if sysfs.IsShortage(n.Err) {
			return n.Err
		}
	}
	return nil
}

// CheckNode observes a node, and adds a condition if the node doesn't match sysfs ([sysfs.Host.CheckNode]). file is the
// name of the file that contains the node's number.
func (f *Findings) CheckNode(host sysfs.Host, n DeviceNode, file string) {
	f.Observe(sysfs.ObserveEntry(host.Dev + "/" + n.Name))
	err := host.CheckNode(n.Name, n.number, n.Err)
	if err == nil {
		return
	}
	reason := inventory.ReasonUnreadable + "=" + file
	switch {
	case errors.Is(err, sysfs.ErrNodeMissing):
		reason = inventory.ReasonNodeMissing
	case errors.Is(err, sysfs.ErrNodeMismatch):
		reason = inventory.ReasonNodeMismatch
	}
	f.Add(inventory.Condition{Reason: reason, Health: inventory.Unhealthy, Err: err})
}
