package offer

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
)

// The modes: what one unit of a resource is. The names of the resources of the
// last three, and what their containers are given, are those of Intel's FPGA
// plugin.
const (
	Single      = "single"      // every FPGA port is one unit of one resource
	Pool        = "pool"        // numbered units without hardware behind them
	AF          = "af"          // every port is one unit of a resource for its AFU
	Region      = "region"      // every FME is one unit of a resource for its interface; its ports' nodes
	RegionDevel = "regiondevel" // the same, and the FME's node
)

// Modes lists the modes that there are.
func Modes() []string { return []string{Single, AF, Region, RegionDevel, Pool} }

// familyPool is the name of the family whose devices are the units of mode pool,
// and of no other mode.
const familyPool = "pool"

// The names that the modes give within the namespace begin so.
const (
	prefixAF     = "af-"
	prefixRegion = "region-"
)

// What keeps a device from being offered.
var (
	errNoAFU       = errors.New("no AFU id is known, which mode af offers it by")
	errNoInterface = errors.New("no interface id is known, which this mode offers it by")
)

// afName is the name for an AFU on an interface, after the namespace: the first
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

// idBytes are the 16 bytes of an id. An id that is none is the error none: what is
// written into a resource's name is not left to the hardware.
func idBytes(id string, none error) ([]byte, error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 16 || strings.ToLower(id) != id {
		return nil, none
	}
	return b, nil
}

// byMode names the resource that the mode offers a device as.
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

// namedByMode says whether a resource could be one that some mode names within
// the namespace.
func (p Policy) namedByMode(resource string) bool {
	name, ok := strings.CutPrefix(resource, p.Namespace+"/")
	return ok && (strings.HasPrefix(name, prefixAF) || strings.HasPrefix(name, prefixRegion))
}

// AnyAFU says whether a device is the same one whatever AFU it holds: in modes in
// which pods program it.
func (p Policy) AnyAFU() bool { return p.Mode == Region || p.Mode == RegionDevel }
