package offer

import (
	"errors"
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/names"
)

// The modes. af, region and regiondevel use the same resource names and device nodes as Intel's FPGA plugin.
const (
	Single      = "single"      // every FPGA port is a device, all with the same resource
	Pool        = "pool"        // numbered devices without hardware
	AF          = "af"          // every port is a device, with a resource for its AFU
	Region      = "region"      // every FME is a device with its ports' nodes, with a resource for its interface
	RegionDevel = "regiondevel" // like region, plus the FME's node
)

// Modes returns all modes.
func Modes() []string { return []string{Single, AF, Region, RegionDevel, Pool} }

// familyPool is the name of the only device family that pool mode offers. The other modes don't offer it.
const familyPool = "pool"

// Reasons why a device can't be offered.
var (
	errNoAFU       = errors.New("the resource name in mode af needs an AFU id, and none is known")
	errNoInterface = errors.New("the resource name in this mode needs an interface id, and none is known")
	errNoShell     = errors.New("the VBNV and timestamp of the shell are not known, or do not fit in a resource name; a rule can name the device")
)

// byMode returns the resource name that the mode alone gives a device. It returns "" or an error as [Naming.ResourceOf]
// does.
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

// namedByMode reports whether resource is a name in our namespace that some mode might use.
func (p Naming) namedByMode(resource string) bool {
	name, ok := strings.CutPrefix(resource, p.Namespace+"/")
	return ok && names.Ours(name)
}

// AnyAFU reports whether pods program devices in this mode, so that a device whose AFU changes is still the same
// device.
func (p Naming) AnyAFU() bool { return p.Mode == Region || p.Mode == RegionDevel }
