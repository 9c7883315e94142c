package inventory

import "cmp"

// identity distinguishes a unit from another unit in the same place. A field is "" if it isn't known or doesn't exist.
// These two cases can't be told apart while a card is being added or removed, because the kernel adds and removes its
// parts one by one.
type identity struct {
	family string
	pci    string // the card's model
	anyPCI bool   // pci isn't part of the identity
	afu    string
	iface  string
}

// identityOf returns the identity of a published device.
func identityOf(d *Device) identity {
	return identity{family: d.Family, pci: d.PCIID, anyPCI: d.AnyPCIID, afu: d.AFUID, iface: d.InterfaceID}
}

// learn updates the identity from a reading. Anything that is missing from the reading stays as it was.
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
	unknown likeness = iota // the newer identity lacks parts that may still be read
	same
	different
)

// compare compares two identities. It ignores the parts that the older identity lacks. It also ignores the AFU if
// anyAFU is true, and the PCI ids if anyPCI is true in either identity (holdings don't record anyPCI).
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
		return different
	case before.afu != "" && now.afu == "", before.iface != "" && now.iface == "":
		return unknown
	}
	return same
}
