package offer

import (
	"strings"

	"b-com.com/accelerator-device-plugin/inventory"
)

// Rule assigns a resource name to the devices it matches.
type Rule struct {
	Resource string // DOMAIN/NAME
	Match    Match
}

// Match lists the properties that a device must have. "" matches any value. Hexadecimal digits are lower case.
type Match struct {
	PCIVendor        string // 4 digits
	PCIDevice        string // 4 digits
	Subsystem        string // VVVV:DDDD
	PCIAddress       string // the card's address: BB:DD.F, or DDDD:BB:DD.F outside domain 0
	PhysicalFunction string // the physical function's address, in the same format as PCIAddress
	VirtualFunction  string // the virtual function's index, from 0, decimal
	AFUID            string // 32 digits
	InterfaceID      string // 32 digits
	VBNV             string // the VBNV of an AMD card's shell
	Family           string // the inventory family
}

func (m Match) matches(d *inventory.Device) bool {
	vendor, rest, _ := strings.Cut(d.PCIID, ":")
	device, subsystem, _ := strings.Cut(rest, ":")
	facts := Match{
		PCIVendor: vendor, PCIDevice: device, Subsystem: subsystem, PCIAddress: short(d.PCIAddress),
		PhysicalFunction: short(d.Attributes[inventory.AttributePhysicalFunction]),
		VirtualFunction:  d.Attributes[inventory.AttributeVirtualFunction],
		AFUID:            d.AFUID, InterfaceID: d.InterfaceID, VBNV: d.Attributes[inventory.AttributeVBNV], Family: d.Family,
	}.facts()
	for i, f := range m.facts() {
		if f.value != "" && f.value != facts[i].value {
			return false
		}
	}
	return true
}

// short returns a PCI address without the domain if the domain is 0.
func short(address string) string { return strings.TrimPrefix(address, "0000:") }

// fact is one field of a Match, with its key in the configuration file.
type fact struct{ key, value string }

func (m Match) facts() [10]fact {
	return [...]fact{
		{"pciVendor", m.PCIVendor}, {"pciDevice", m.PCIDevice}, {"subsystem", m.Subsystem}, {"pciAddress", m.PCIAddress},
		{"physicalFunction", m.PhysicalFunction}, {"virtualFunction", m.VirtualFunction},
		{"afuId", m.AFUID}, {"interfaceId", m.InterfaceID}, {"vbnv", m.VBNV}, {"family", m.Family},
	}
}

// String returns the rule in the format used in the log: example.com/nlb for afuId=d8424dc4….
func (r Rule) String() string {
	s := r.Resource + " for"
	for _, f := range r.Match.facts() {
		if f.value != "" {
			s += " " + f.key + "=" + f.value
		}
	}
	return s
}
