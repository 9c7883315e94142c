package pci

import (
	"strconv"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Virtual identifies a virtual function by its physical function and its index. The zero value stands for a function
// that isn't virtual, or whose physical function isn't visible, as in a guest.
type Virtual struct {
	PhysFn string // the physical function's address
	index  int    // the virtual function's index, from 0; -1 if not known
}

// VirtualOf returns the Virtual for the function at dir. It reads only links. The only errors it returns are shortages
// ([sysfs.IsShortage]).
func VirtualOf(dir string) (v Virtual, err error) {
	if v.PhysFn, err = sysfs.PhysFn(dir); err == nil && v.PhysFn != "" {
		v.index, err = sysfs.VirtFn(dir)
	}
	return v, err
}

// Describe sets the attributes of the virtual function's unit.
func (v Virtual) Describe(u *inventory.Unit) {
	if v.PhysFn == "" {
		return
	}
	if u.Attributes == nil {
		u.Attributes = make(map[string]string)
	}
	u.Attributes[inventory.AttributePhysicalFunction] = v.PhysFn
	if v.index >= 0 {
		u.Attributes[inventory.AttributeVirtualFunction] = strconv.Itoa(v.index)
	}
}

// Related returns the addresses of functions whose events also concern the virtual function, for [inventory.Reading].
func (v Virtual) Related() []string {
	if v.PhysFn == "" {
		return nil
	}
	return []string{v.PhysFn}
}
