package offer

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
)

// The modes. The modes af, region and regiondevel have the resource names and the device nodes
// of Intel's FPGA plugin.
const (
	Single      = "single"      // every FPGA port is one unit of one resource
	Pool        = "pool"        // numbered units without hardware behind them
	AF          = "af"          // every port is one unit of a resource for its AFU
	Region      = "region"      // every FME is one unit of a resource for its interface; its ports' nodes
	RegionDevel = "regiondevel" // the same, and the FME's node
)

// Modes returns all modes.
func Modes() []string { return []string{Single, AF, Region, RegionDevel, Pool} }

// familyPool is the name of the family of mode pool. Other modes do not offer its devices.
const familyPool = "pool"

// The prefixes of the names that the modes give within the namespace.
const (
	prefixAF     = "af-"
	prefixRegion = "region-"
)

// The reasons why a device cannot be offered.
var (
	errNoAFU       = errors.New("no AFU id is known, which mode af offers it by")
	errNoInterface = errors.New("no interface id is known, which this mode offers it by")
)

// afName returns the name for an AFU on an interface, without the namespace: the first
// three digits of both for people, then the 32 bytes of both in base64.
func afName(iface, afu string) (string, error) {
	i, err := idBytes(iface, errNoInterface)
	if err != nil {
		return "", err
	}
	a, err := idBytes(afu, errNoAFU)
	if err != nil {
		return "", err
	}
	return prefixAF + iface[:3] + "." + afu[:3] + "." + base64.RawURLEncoding.EncodeToString(slices.Concat(i, a)), nil
}

func regionName(iface string) (string, error) {
	_, err := idBytes(iface, errNoInterface)
	return prefixRegion + iface, err
}

// idBytes returns the 16 bytes of an id, or the error none if it is not valid, so that the
// hardware cannot put other characters into the name of a resource.
func idBytes(id string, none error) ([]byte, error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 16 || strings.ToLower(id) != id {
		return nil, none
	}
	return b, nil
}

// byMode returns the name of the resource that a device belongs to by the mode alone, as
// [Policy.ResourceOf].
func (p Policy) byMode(d *inventory.Device) (string, error) {
	if (d.Family == familyPool) != (p.Mode == Pool) {
		return "", nil
	}
	var name string
	var err error
	switch p.Mode {
	case Single, Pool:
		return p.ResourceName, nil
	case AF:
		name, err = afName(d.InterfaceID, d.AFUID)
	case Region, RegionDevel:
		name, err = regionName(d.InterfaceID)
	}
	if name == "" || err != nil {
		return "", err
	}
	return p.Namespace + "/" + name, nil
}

// namedByMode reports whether some mode may give this name to a resource within the namespace.
func (p Policy) namedByMode(resource string) bool {
	name, ok := strings.CutPrefix(resource, p.Namespace+"/")
	return ok && (strings.HasPrefix(name, prefixAF) || strings.HasPrefix(name, prefixRegion))
}

// AnyAFU reports whether a device with another AFU is the same device, because pods program it
// in this mode.
func (p Policy) AnyAFU() bool { return p.Mode == Region || p.Mode == RegionDevel }
