package inventory

import (
	"slices"
	"time"
)

// Normally, a device is listed while it is present, under its own name and with its own health. A reservation keeps a
// device that a container holds, or may hold, listed under the name it was allocated under. Such a device is unhealthy,
// with a reason from reservationReasons. If the device is present, this reason is added to its own reasons.
//
// There are two kinds of reservations. The first is for a device that has left. The second is for a renamed device,
// which is present but is held, or may be held, under another name. If a renamed device leaves, its reservation becomes
// one of the first kind. A reservation ends
//
//   - when an answer from [Config.Holders] shows that the reserved device has no holder, or when there has been no
//     answer for longer than the grace time;
//   - when the present device is identical to the reserved one, because it has come back or has its old name again.
//
// A device that has left and come back has to go through the recovery hold, and so does a different device in its
// place. In all other cases, a reservation ends without a hold, because the hardware was fine.

// reservationReasons contains the reasons that a reservation gives, depending on what is known about the present
// device. In each pair, the first reason applies while the reserved device's holders aren't known, and the second while
// the device is held. Two cases take precedence: a device held through the other API gets held-other-api (package
// kubelet/holders decides when it is free), and a device that was allocated in another mode and whose card is present
// gets former-mode.
var reservationReasons = map[bool]map[standing][2]string{
	false: { // the reserved device has left
		absent:     {ReasonRemoved, ReasonRemovedInUse},
		undecided:  {ReasonRemoved, ReasonRemovedInUse},
		replaced:   {ReasonReplacedInUse, ReasonReplacedInUse},
		renumbered: {ReasonNodeChanged, ReasonNodeChanged},
	},
	true: { // the reserved device was renamed
		undecided: {ReasonMoving, ReasonMoving},
		replaced:  {ReasonMoving, ReasonReplacedInUse},
	},
}

// reservation keeps a device that a container holds, or may hold, listed under the name it was allocated under.
type reservation struct {
	device   *Device   // the previous device, which is listed while no device is present
	identity identity  // the previous device's identity; empty if only its name is known
	since    time.Time // when the reservation began
	renamed  bool      // the device hasn't left; its name has changed
	held     bool      // the kubelet's newest answer shows holders of the device
	holders  []string  // from the newest answer
	free     bool      // a query made after the reservation began shows no holder of the device
	otherAPI bool      // the device is held through the other API
	standing standing
	// reshaped means that the device isn't present, but its card and the nodes that the holders were given are. The
	// device was allocated in another mode, either as one of the card's ports or as the whole card.
	reshaped bool
	// moved means that the device has been renumbered since the reservation began, so its holders may have any of the
	// nodes that it has had since then.
	moved bool
}

// standing is the result of comparing the present device with the reserved one.
type standing uint8

const (
	absent     standing = iota // no device is present
	undecided                  // the present device's identity or name isn't complete yet
	replaced                   // the present device differs from the reserved one in its identity or its name
	renumbered                 // the reserved device is present, but its nodes differ from those its holders were given
	identical                  // the reserved device is present
)

// reason returns why the reserved device is unhealthy.
func (c *reservation) reason() string {
	reasons := reservationReasons[c.renamed][c.standing]
	switch {
	case c.renamed && c.otherAPI:
		return ReasonHeldOtherAPI
	case c.reshaped:
		return ReasonFormerMode
	case c.held:
		return reasons[1]
	}
	return reasons[0]
}

// tombstoneOf returns the device that is listed in place of d when d has left.
func tombstoneOf(d *Device) *Device {
	return &Device{ID: d.ID, Family: d.Family, Health: Unhealthy, OfferedAs: d.OfferedAs, PCIAddress: d.PCIAddress, Facts: d.afterRemoval()}
}

// reservationOf returns a reservation for a device that is known only from a holding.
func reservationOf(id string, h Holding, now time.Time) *reservation {
	d := &Device{ID: id, OfferedAs: h.As, Health: Unhealthy, PCIAddress: addressOf(id), Facts: Facts{NUMANode: -1, PortID: -1}}
	if d.PCIAddress != "" {
		d.PortID = portOf(id)
	}
	if h.Given != nil {
		d.Family, d.PCIID, d.AFUID, d.InterfaceID = h.Given.Family, h.Given.PCIID, h.Given.AFUID, h.Given.InterfaceID
	}
	return &reservation{device: d, identity: identityOf(d), since: now}
}

// settle starts, updates or ends the reservation of an entry whose present device is d, and sets d's name.
func (n *node) settle(e *entry, d *Device, now time.Time) {
	if n.policy.Name == nil { // no devices are offered
		if e.reservation != nil {
			n.compareReserved(e, d, "", now)
		}
		return
	}
	name, err := n.policy.Name(d)
	n.noteUnnamed(e, err, now)
	n.reserveSwapped(e, name, now)
	if e.reservation != nil {
		n.compareReserved(e, d, name, now)
	} else {
		n.reserveRenamed(e, name, now)
	}
	n.reserveHeldElsewhere(e, d, name, now)
	d.OfferedAs = name
	if e.reservation != nil {
		d.OfferedAs = e.reservation.device.OfferedAs
	}
}

// reserveSwapped makes a reservation if containers hold a card other than the one now installed. That happens if the
// cards were swapped while no daemon was running.
func (n *node) reserveSwapped(e *entry, name string, now time.Time) {
	h, held := heldAs(n.holders.of(e.id), name)
	if e.reservation == nil && held && h.Given != nil && identityOf(h.Given).compare(e.unit.identity, true) == different {
		e.reservation = reservationOf(e.id, h, now)
		n.holders.askAt = earlier(n.holders.askAt, now)
	}
}

// compareReserved compares the present device with the reserved one and ends the reservation if they are identical.
func (n *node) compareReserved(e *entry, d *Device, name string, now time.Time) {
	c := e.reservation
	switch {
	case c.renamed && name == c.device.OfferedAs:
		n.endReservation(e, change{kind: deviceRenamedBack, quiet: !c.held}, now)
		e.health.clear(ReasonReplacedInUse)
	case c.renamed && name == "":
		c.standing = undecided
	case c.renamed:
		c.standing = replaced
	default:
		c.standing, c.reshaped = n.compare(e, d, name), false
		c.moved = c.moved || c.standing == renumbered
		if c.standing == identical {
			n.endReservation(e, change{kind: deviceReturned}, now)
			if !lacks(nodesOf(d), e.lost.nodes) {
				e.lost = lost{}
			}
		}
	}
}

// reserveRenamed makes a reservation if the present device previously had another name. The name of a device that was
// never offered and isn't held changes immediately, because a rule for an AFU can't match a new port until the port's
// driver binds.
func (n *node) reserveRenamed(e *entry, name string, now time.Time) {
	old := e.unit.device
	if old == nil || old.OfferedAs == "" || old.OfferedAs == name || e.justReleased || !n.asks {
		return
	}
	if _, held := heldAs(n.holders.Of[e.id], old.OfferedAs); held || e.health.offered {
		e.reservation = renamedReservation(old, old.OfferedAs, name, now)
		e.reservation.identity = identityOf(old)
	}
	n.holders.askAt = earlier(n.holders.askAt, now)
}

// reserveHeldElsewhere makes a reservation if the device was allocated through the other API, or under another name by
// an earlier or a different daemon. It does so even if the device is also held under its own name. A device that is
// held through the other API stays withheld while queries fail, because this daemon can't take back another API's
// allocation.
func (n *node) reserveHeldElsewhere(e *entry, d *Device, name string, now time.Time) {
	if e.reservation != nil {
		return
	}
	holdings := n.holders.of(e.id)
	if d.OnlyByRule && name == "" { // no rule gives it a name, so it may well belong to another plugin
		holdings = slices.DeleteFunc(slices.Clone(holdings), func(h Holding) bool { return h.Perhaps })
	}
	held := otherHolding(holdings, name)
	if elsewhere, is := heldElsewhere(holdings); is {
		held = &elsewhere
	}
	if held != nil {
		e.reservation = renamedReservation(d, held.As, name, now)
		e.reservation.otherAPI = held.OtherAPI
		if n.holders.taken { // the record may contain containers that have exited
			n.noteHeld(e, *held)
		}
	}
}

// renamedReservation returns a reservation for a present device that is held, or may be held, under a name other than
// its own.
func renamedReservation(d *Device, as, name string, now time.Time) *reservation {
	c := &reservation{device: tombstoneOf(d), since: now, renamed: true, standing: undecided}
	c.device.OfferedAs = as
	if name != "" {
		c.standing = replaced
	}
	return c
}

// heldAs returns the holding under this name, or the first holding if name is "".
func heldAs(holdings []Holding, name string) (Holding, bool) {
	i := slices.IndexFunc(holdings, func(h Holding) bool { return name == "" || h.As == name })
	if i < 0 {
		return Holding{}, false
	}
	return holdings[i], true
}

// otherHolding returns the first holding under a name other than name, or nil if there is none.
func otherHolding(holdings []Holding, name string) *Holding {
	i := slices.IndexFunc(holdings, func(h Holding) bool { return h.As != name && !h.Foreign })
	if i < 0 {
		return nil
	}
	return &holdings[i]
}

// heldElsewhere returns the first holding through the other API.
func heldElsewhere(holdings []Holding) (Holding, bool) {
	i := slices.IndexFunc(holdings, func(h Holding) bool { return h.OtherAPI })
	if i < 0 {
		return Holding{}, false
	}
	return holdings[i], true
}

// compare compares d, the present device, with the reserved device. name is d's name according to the policy.
func (n *node) compare(e *entry, d *Device, name string) standing {
	holding, _ := heldAs(n.holders.of(e.id), e.reservation.device.OfferedAs)
	like := e.reservation.identity.compare(e.unit.identity, n.policy.AnyAFU || holding.AnyAFU)
	switch {
	case like == unknown, e.unit.guessed(d), like == same && n.policy.Name != nil && name == "": // a later reading may be complete
		return undecided
	case like == different, n.policy.Name != nil && name != e.reservation.device.OfferedAs:
		return replaced
	case len(d.Nodes) == 0 && len(e.lost.nodes) > 0: // a region whose ports don't exist yet
		return undecided
	case e.hasReplacedNodes(n, nodesOf(d)):
		return renumbered
	}
	return identical
}

// endReservation ends the reservation of an entry whose device has come back or has its old name again.
func (n *node) endReservation(e *entry, as change, now time.Time) {
	as.Change, as.lasted, as.holders = Change{ID: e.id, New: e.reservation.device}, now.Sub(e.reservation.since), e.reservation.holders
	n.changes = append(n.changes, as)
	e.reservation = nil
}

// release ends an entry's reservation because the device has no holder, or because its holders have been unknown for
// the grace time. why is the reason to log.
func (n *node) release(e *entry, why string, now time.Time) {
	c := e.reservation
	e.reservation, e.justReleased, e.lost = nil, e.unit != nil, lost{}
	e.health.clear(ReasonReplacedInUse)
	n.changes = append(n.changes, change{
		Change: Change{ID: e.id, New: c.device}, kind: deviceReleased, renamed: c.renamed, lasted: now.Sub(c.since), why: why,
		// Log at level debug if the device had no holder during the reservation, because its removal has already been
		// logged.
		quiet: !c.held && n.holders.Err == nil && c.standing != renumbered && (c.standing != replaced || c.renamed),
	})
	n.mark(e.id, time.Time{})
	n.keepNodes(e)
}

// confirm updates a reserved device's holders if they have changed.
func (n *node) confirm(e *entry, h Holding) {
	if !e.reservation.held || !slices.Equal(e.reservation.holders, h.Holders) {
		n.noteHeld(e, h)
		n.mark(e.id, time.Time{})
	}
}

func (n *node) noteHeld(e *entry, h Holding) {
	c := e.reservation
	c.held, c.holders = true, h.Holders
	if e.unit == nil {
		n.reshape(e, &Device{})
	}
	n.keepNodes(e) // marks the devices that now have its nodes
	n.changes = append(n.changes, heldChange(e))
}

func heldChange(e *entry) change {
	c := e.reservation
	return change{
		Change: Change{ID: e.id, New: c.device}, kind: deviceHeld, renamed: c.renamed, otherAPI: c.otherAPI,
		renumbered: c.standing == renumbered, reshaped: c.reshaped, holders: c.holders,
	}
}
