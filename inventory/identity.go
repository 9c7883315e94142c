package inventory

import "cmp"

// identity tells a unit from another one in the same slot. "" is a part that is not known or
// does not exist: the two cannot be told apart while a card comes or goes, because the kernel
// adds and removes it in steps.
type identity struct {
	family string
	pci    string // model of the card
	afu    string
	iface  string
}

// identityOf returns the identity that a device was published with.
func identityOf(d *Device) identity {
	return identity{family: d.Family, pci: d.PCIID, afu: d.AFUID, iface: d.InterfaceID}
}

// learn updates the identity by a reading. A part that the reading lacks stays as it was.
func (i *identity) learn(r Unit, family string) {
	i.family = family
	i.pci = cmp.Or(r.PCIID, i.pci)
	if r.AFUIDKnown {
		i.afu = cmp.Or(r.AFUID, i.afu)
	}
	if r.InterfaceIDKnown {
		i.iface = cmp.Or(r.InterfaceID, i.iface)
	}
}

// likeness is how two identities compare.
type likeness uint8

const (
	unknown likeness = iota // parts are missing that may still be read
	same
	other
)

// compare compares two identities. A part that was not known before is ignored. With anyAFU
// the AFU is ignored.
func (before identity) compare(now identity, anyAFU bool) likeness {
	if anyAFU {
		before.afu = ""
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
