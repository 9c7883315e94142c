package offer

import (
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
)

// Rule names a resource for the devices that match.
type Rule struct {
	Resource string // DOMAIN/NAME
	Match    Match
}

// Match has the properties that a device must have. "" matches any value. Hexadecimal digits are in
// lower case.
type Match struct {
	PCIVendor   string // 4 digits
	PCIDevice   string // 4 digits
	PCIAddress  string // of the card: BB:DD.F, or DDDD:BB:DD.F outside domain 0
	AFUID       string // 32 digits
	InterfaceID string // 32 digits
	Family      string // of the inventory
}

func (m Match) matches(d *inventory.Device) bool {
	vendor, rest, _ := strings.Cut(d.PCIID, ":")
	device, _, _ := strings.Cut(rest, ":")
	facts := Match{
		PCIVendor: vendor, PCIDevice: device, PCIAddress: strings.TrimPrefix(d.PCIAddress, "0000:"),
		AFUID: d.AFUID, InterfaceID: d.InterfaceID, Family: d.Family,
	}.facts()
	for i, f := range m.facts() {
		if f.value != "" && f.value != facts[i].value {
			return false
		}
	}
	return true
}

// fact is one field of a Match, with its key in the configuration file.
type fact struct{ key, value string }

func (m Match) facts() [6]fact {
	return [...]fact{
		{"pciVendor", m.PCIVendor}, {"pciDevice", m.PCIDevice}, {"pciAddress", m.PCIAddress},
		{"afuId", m.AFUID}, {"interfaceId", m.InterfaceID}, {"family", m.Family},
	}
}

// String returns the rule in the form of the log: example.com/nlb for afuId=d8424dc4….
func (r Rule) String() string {
	s := r.Resource + " for"
	for _, f := range r.Match.facts() {
		if f.value != "" {
			s += " " + f.key + "=" + f.value
		}
	}
	return s
}
