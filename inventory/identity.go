package inventory

// identity is what makes a port the one that it is, beside its place. What is
// not known, or not there, is "".
type identity struct {
	family   string
	pci      string // model of the card
	afu      string
	afuKnown bool
	iface    string
	// ifaceKnown: the interface was read, or that there is none.
	ifaceKnown bool
}

// learn takes in what a reading tells; the rest stays.
func (i *identity) learn(r Port, family string) {
	i.family = family
	if r.PCIID != "" {
		i.pci = r.PCIID
	}
	if r.AFUIDKnown {
		i.afu, i.afuKnown = r.AFUID, true
	}
	if r.InterfaceIDKnown {
		i.iface, i.ifaceKnown = r.InterfaceID, true
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
	afu, iface := before.afuKnown && !anyAFU, before.ifaceKnown
	switch {
	case before.family != "" && before.family != now.family,
		before.pci != "" && now.pci != "" && before.pci != now.pci,
		afu && now.afuKnown && before.afu != now.afu,
		iface && now.ifaceKnown && before.iface != now.iface:
		return other
	case afu && !now.afuKnown, iface && !now.ifaceKnown:
		return unknown
	}
	return same
}
