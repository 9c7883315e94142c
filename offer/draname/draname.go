package draname

import (
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
)

const (
	// Driver is the DRA driver's name in ResourceSlices, claims and DeviceClasses, and the domain of its attributes.
	Driver = "accelerator.b-com.com"
	// Taint is the taint key for unhealthy devices. Its value is the worst of the device's health reasons.
	Taint = Driver + "/unhealthy"
)

const prefix = "pci-"

// Device returns the API name for a device id: pci-0000-3b-00-0 for 3b:00.0, and pci-0001-3b-00-0-p1 for
// 0001:3b:00.0-p1. The API doesn't allow colons or dots in names. Device returns "" if the device isn't in a PCI slot.
func Device(id string) string {
	if !inventory.IsAddress(id) {
		return ""
	}
	if strings.Count(id, ":") == 1 {
		id = "0000:" + id
	}
	return prefix + strings.NewReplacer(":", "-", ".", "-").Replace(id)
}

// ID is the inverse of [Device]: it returns the id of the device with this API name. ok is false if [Device] never
// returns such a name.
func ID(device string) (id string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(device, prefix), "-")
	if len(parts) < 4 {
		return "", false
	}
	id = parts[0] + ":" + parts[1] + ":" + parts[2] + "." + parts[3]
	if len(parts) > 4 {
		id += "-" + strings.Join(parts[4:], "-")
	}
	id = strings.TrimPrefix(id, "0000:")
	return id, Device(id) == device
}

const bitstreamPrefix = "afu-"

// Bitstream returns the API name for a bitstream in a node's store. It returns "" unless both ids have 32 hexadecimal
// digits. The name contains only the first 16 digits of the interface ID, because names are limited to 63 characters.
func Bitstream(interfaceID, afuID string) string {
	if len(interfaceID) != 32 || len(afuID) != 32 {
		return ""
	}
	return bitstreamPrefix + afuID + "-" + interfaceID[:16]
}

// BitstreamAFU returns the AFU id of the bitstream with this API name. ok is false if [Bitstream] never returns such a
// name.
func BitstreamAFU(device string) (afuID string, ok bool) {
	rest, ok := strings.CutPrefix(device, bitstreamPrefix)
	afuID, region, _ := strings.Cut(rest, "-")
	return afuID, ok && len(afuID) == 32 && len(region) == 16 && strings.Trim(afuID+region, "0123456789abcdef") == ""
}
