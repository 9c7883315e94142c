// Package names has the names of package draname, for the packages of this module. It has no state.
package names

import "b-com.com/accelerator-device-plugin/internal/draname"

// See package draname.
const (
	Driver = draname.Driver
	Taint  = draname.Taint
)

// Device returns the name in the API of the device with this id, see [draname.Device].
func Device(id string) string { return draname.Device(id) }

// ID returns the id of the device with this name, see [draname.ID].
func ID(device string) (id string, ok bool) { return draname.ID(device) }
