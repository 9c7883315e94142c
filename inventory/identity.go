package inventory

import "cmp"

// identity is what makes a port the one that it is, beside its place. "" is what
// is not known, or not there: the two cannot be told apart while a card comes or
// goes, because the kernel makes and removes it in parts.
type identity struct {
	family string
	pci    string // model of the card
	afu    string
	iface  string
}

// identityOf is what a device was published to be.
func identityOf(d *Device) identity {
	return identity{family: d.Family, pci: d.PCIID, afu: d.AFUID, iface: d.InterfaceID}
}

// learn takes in what a reading tells. What is not there (any more) does not
// unmake what was.
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
	unknown likeness = iota // not enough is known yet to tell
	same
	other
)

// compare says whether now is what was before. What was not known before cannot
// speak against it. With anyAFU a port is the same whatever AFU it holds.
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
