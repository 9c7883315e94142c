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

// familyPool is the name of the family for pool mode. Other modes don't offer its devices.
const familyPool = "pool"

// Reasons why a device can't be offered.
var (
	errNoAFU       = errors.New("the resource name in mode af needs an AFU id, and none is known")
	errNoInterface = errors.New("the resource name in this mode needs an interface id, and none is known")
	errNoShell     = errors.New("the VBNV and timestamp of the shell are not known, or do not fit in a resource name; a rule can name the device")
)

// byMode returns the name of a device's resource based on the mode alone. Its results are as in [Naming.ResourceOf].
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

// AnyAFU reports whether a device is still the same device after its AFU has changed, because pods program devices in
// this mode.
func (p Naming) AnyAFU() bool { return p.Mode == Region || p.Mode == RegionDevel }
