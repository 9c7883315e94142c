package inventory

import "cmp"

// identity distinguishes a unit from another unit in the same place. A part is "" if it is not known
// or does not exist. These two cases cannot be distinguished while a card is added or removed,
// because the kernel does that in steps.
type identity struct {
	family string
	pci    string // model of the card
	anyPCI bool   // pci is not part of the identity
	afu    string
	iface  string
}

// identityOf returns the identity of a published device.
func identityOf(d *Device) identity {
	return identity{family: d.Family, pci: d.PCIID, anyPCI: d.AnyPCIID, afu: d.AFUID, iface: d.InterfaceID}
}

// learn updates the identity from a reading. A part that the reading lacks stays as it was.
func (i *identity) learn(r Unit, family string) {
	i.family = family
	i.pci, i.anyPCI = cmp.Or(r.PCIID, i.pci), r.AnyPCIID
	if r.AFUIDKnown {
		i.afu = cmp.Or(r.AFUID, i.afu)
	}
	if r.InterfaceIDKnown {
		i.iface = cmp.Or(r.InterfaceID, i.iface)
	}
}

// likeness is the result of comparing two identities.
type likeness uint8

const (
	unknown likeness = iota // the newer identity lacks parts, which may still be read
	same
	other
)

// compare compares two identities. It ignores the parts that are not known in before, the AFU if anyAFU is true, and
// the PCI ids if anyPCI is true in at least one of the two, because the record of a holding lacks anyPCI.
func (before identity) compare(now identity, anyAFU bool) likeness {
	if anyAFU {
		before.afu = ""
	}
	if before.anyPCI || now.anyPCI {
		before.pci = ""
	}
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	switch {
	case differ(before.family, now.family), differ(before.pci, now.pci),
		differ(before.afu, now.afu), differ(before.iface, now.iface):
		return other
	case before.afu != "" && now.afu == "", before.iface != "" && now.iface == "":
		return unknown
	}
	return same
}
