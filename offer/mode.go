package offer

import (
	"errors"
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/names"
)

// The modes. The modes af, region and regiondevel use the resource names and the device nodes of Intel's FPGA plugin.
const (
	Single      = "single"      // every FPGA port is one device of one resource
	Pool        = "pool"        // numbered devices without hardware
	AF          = "af"          // every port is one device of a resource for its AFU
	Region      = "region"      // every FME is one device of a resource for its interface, with the nodes of its ports
	RegionDevel = "regiondevel" // like region, with the node of the FME in addition
)

// Modes returns all modes.
func Modes() []string { return []string{Single, AF, Region, RegionDevel, Pool} }

// familyPool is the name of the family of mode pool. Other modes do not offer its devices.
const familyPool = "pool"

// The reasons why a device cannot be offered.
var (
	errNoAFU       = errors.New("the resource name in mode af needs an AFU id, and none is known")
	errNoInterface = errors.New("the resource name in this mode needs an interface id, and none is known")
	errNoShell     = errors.New("the VBNV and timestamp of the shell are not known, or do not fit in a resource name; a rule can name the device")
)

// byMode returns the name of a device's resource according to the mode alone. The results are those of
// [Naming.ResourceOf].
func (p Naming) byMode(d *inventory.Device) (string, error) {
	if (d.Family == familyPool) != (p.Mode == Pool) {
		return "", nil
	}
	switch p.Mode {
	case Single, Pool:
		return p.ResourceName, nil
	case AF, Region, RegionDevel:
		region, ok := names.Region(d.InterfaceID)
		if !ok {
			return "", errNoInterface
		}
		if p.Mode != AF {
			return p.Namespace + "/" + region, nil
		}
		af, ok := names.AF(d.InterfaceID, d.AFUID)
		if !ok {
			return "", errNoAFU
		}
		return p.Namespace + "/" + af, nil
	}
	return "", nil
}

// namedByMode reports whether some mode may give this name to a resource within the namespace.
func (p Naming) namedByMode(resource string) bool {
	name, ok := strings.CutPrefix(resource, p.Namespace+"/")
	return ok && names.Ours(name)
}

// AnyAFU reports whether a device with another AFU is the same device, because pods program it
// in this mode.
func (p Naming) AnyAFU() bool { return p.Mode == Region || p.Mode == RegionDevel }
