package inventory

import (
	"slices"
	"time"
)

// Without a reservation, the present device of an entry is listed under its own name, with its own health. A
// reservation keeps a device listed under the name under which a container holds it, or may hold it. Such a device is
// unhealthy, with a reason from reservationReasons. If the device is present, this reason is added to its own.
//
// There are two kinds of reservations: on a device that has left, and on a device that is present but held, or perhaps
// held, under another name than its own. If a renamed device leaves, its reservation becomes one of the first kind. A
// reservation ends
//
//   - when an answer shows that the reserved device has no holder, or there has been no answer for the grace time;
//   - when the reserved device is identical to the present one: it has returned, or has its old name again.
//
// A device that has left and returned must pass the recovery hold, and so must another device in its place. Otherwise
// a reservation ends without a hold, because the hardware was well.

// reservationReasons contains the reasons of reservations, by what is known of the present device. The first of two
// reasons applies while the holders of the reserved device are not known, the second while it is held. Two properties
// of a reservation take precedence: a device that is held through the other API has the reason held-other-api (package
// kubelet/holders decides when it is free), and a device that was given out in another mode, on a card that is present,
// has the reason former-mode.
var reservationReasons = map[bool]map[standing][2]string{
	false: { // the reserved device has left
		absent:     {ReasonRemoved, ReasonRemovedInUse},
		undecided:  {ReasonRemoved, ReasonRemovedInUse},
		replaced:   {ReasonReplacedInUse, ReasonReplacedInUse},
		renumbered: {ReasonNodeChanged, ReasonNodeChanged},
	},
	true: { // the reserved device is renamed
		undecided: {ReasonMoving, ReasonMoving},
		replaced:  {ReasonMoving, ReasonReplacedInUse},
	},
}

// reservation keeps a device listed under a name that a container holds, or may hold.
type reservation struct {
	device   *Device   // the former device, which is listed while no device is present
	identity identity  // of the former device; empty if only its name is known
	since    time.Time // when the reservation began
	renamed  bool      // the device has not left: its name has changed
	held     bool      // the kubelet's newest answer has holders of the device
	holders  []string  // in the newest answer
	free     bool      // the kubelet was asked after the reservation began, and its answer has no holder of the device
	other    bool      // the device is held through the other API
	standing standing
	// reshaped: no device is present, but its card is, with the nodes that the holders were given. The device was
	// given out in another mode: as a port of a card, or as a card with its ports.
	reshaped bool
	// moved: the device has been renumbered since the reservation began. Its holders may have any of
	// the nodes that it has had since then.
	moved bool
}

// standing is the result of comparing the present device with the reserved one.
type standing uint8

const (
	absent     standing = iota // no device is present
	undecided                  // the identity or the name of the present device is not complete yet
	replaced                   // the present device differs from the reserved one, in its identity or its name
	renumbered                 // the reserved device is present, with other nodes than its holders were given
	identical                  // the reserved device is present
)

// reason returns the reason for which the reserved device is unhealthy.
func (c *reservation) reason() string {
	reasons := reservationReasons[c.renamed][c.standing]
	switch {
	case c.renamed && c.other:
		return ReasonHeldOtherAPI
	case c.reshaped:
		return ReasonFormerMode
	case c.held:
		return reasons[1]
	}
	return reasons[0]
}

// tombstoneOf returns the device that is listed for d when d has left.
func tombstoneOf(d *Device) *Device {
	return &Device{ID: d.ID, Family: d.Family, Health: Unhealthy, OfferedAs: d.OfferedAs, PCIAddress: d.PCIAddress, Facts: d.left()}
}

// reservationOf returns a reservation on a device that is known only from a holding.
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

// settle begins, compares or ends the reservation on an entry in which d is present, and sets the name of d.
func (n *node) settle(e *entry, d *Device, now time.Time) {
	if n.policy.Name == nil { // no device is offered
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

// reserveSwapped begins a reservation if containers hold another card than the present one: the cards were swapped
// while no daemon ran.
func (n *node) reserveSwapped(e *entry, name string, now time.Time) {
	h, held := heldAs(n.holders.of(e.id), name)
	if e.reservation == nil && held && h.Given != nil && identityOf(h.Given).compare(e.unit.identity, true) == other {
		e.reservation = reservationOf(e.id, h, now)
		n.holders.ask = earlier(n.holders.ask, now)
	}
}

// compareReserved compares the present device with the reserved one, and ends the reservation if they are identical.
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

// reserveRenamed begins a reservation if the present device had another name. A device that was never offered and is
// not held changes its name at once: a rule for an AFU does not match a new port until its driver binds.
func (n *node) reserveRenamed(e *entry, name string, now time.Time) {
	old := e.unit.device
	if old == nil || old.OfferedAs == "" || old.OfferedAs == name || e.justReleased || !n.asks {
		return
	}
	if _, held := heldAs(n.holders.Of[e.id], old.OfferedAs); held || e.health.offered {
		e.reservation = renamedReservation(old, old.OfferedAs, name, now)
		e.reservation.identity = identityOf(old)
	}
	n.holders.ask = earlier(n.holders.ask, now)
}

// reserveHeldElsewhere begins a reservation if the device was given out under another name, by an earlier daemon or
// another one, or through the other API. It may be held under its own name as well. A device that is held through the
// other API stays withheld while questions fail, because this daemon cannot take back what the other API has given out.
func (n *node) reserveHeldElsewhere(e *entry, d *Device, name string, now time.Time) {
	if e.reservation != nil {
		return
	}
	holdings := n.holders.of(e.id)
	if d.OnlyByRule && name == "" { // no rule names it, so it may well belong to another plugin
		holdings = slices.DeleteFunc(slices.Clone(holdings), func(h Holding) bool { return h.Perhaps })
	}
	held := otherHolding(holdings, name)
	if elsewhere, is := heldElsewhere(holdings); is {
		held = &elsewhere
	}
	if held != nil {
		e.reservation = renamedReservation(d, held.As, name, now)
		e.reservation.other = held.OtherAPI
		if n.holders.taken { // the record may have containers that have ended
			n.noteHeld(e, *held)
		}
	}
}

// renamedReservation returns a reservation on a present device that is held, or may be held, under another name than
// its own.
func renamedReservation(d *Device, as, name string, now time.Time) *reservation {
	c := &reservation{device: tombstoneOf(d), since: now, renamed: true, standing: undecided}
	c.device.OfferedAs = as
	if name != "" {
		c.standing = replaced
	}
	return c
}

// heldAs returns the holding of a device under a name, or the first one if the name is "".
func heldAs(holdings []Holding, name string) (Holding, bool) {
	i := slices.IndexFunc(holdings, func(h Holding) bool { return name == "" || h.As == name })
	if i < 0 {
		return Holding{}, false
	}
	return holdings[i], true
}

// otherHolding returns the first holding of a device under another name than this one, or nil.
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

// compare compares d, the present device, with the device that was there before. name is the name that the policy gives
// d.
func (n *node) compare(e *entry, d *Device, name string) standing {
	holding, _ := heldAs(n.holders.of(e.id), e.reservation.device.OfferedAs)
	like := e.reservation.identity.compare(e.unit.identity, n.policy.AnyAFU || holding.AnyAFU)
	switch {
	case like == unknown, e.unit.guessed(d), like == same && n.policy.Name != nil && name == "": // a later reading may be complete
		return undecided
	case like == other, n.policy.Name != nil && name != e.reservation.device.OfferedAs:
		return replaced
	case len(d.Nodes) == 0 && len(e.lost.nodes) > 0: // a region whose ports do not exist yet
		return undecided
	case e.hasReplacedNodes(n, nodesOf(d)):
		return renumbered
	}
	return identical
}

// endReservation ends the reservation on an entry whose device has returned, or has its old name again.
func (n *node) endReservation(e *entry, as change, now time.Time) {
	as.Change, as.lasted, as.holders = Change{ID: e.id, New: e.reservation.device}, now.Sub(e.reservation.since), e.reservation.holders
	n.changes = append(n.changes, as)
	e.reservation = nil
}

// release ends the reservation on an entry because the device has no holder, or because its holders
// have been unknown for the grace time. why is the reason for the log.
func (n *node) release(e *entry, why string, now time.Time) {
	c := e.reservation
	e.reservation, e.justReleased, e.lost = nil, e.unit != nil, lost{}
	e.health.clear(ReasonReplacedInUse)
	n.changes = append(n.changes, change{
		Change: Change{ID: e.id, New: c.device}, kind: deviceReleased, renamed: c.renamed, lasted: now.Sub(c.since), why: why,
		// At level debug if the device had no holder during the reservation: its removal has been logged.
		quiet: !c.held && n.holders.Err == nil && c.standing != renumbered && (c.standing != replaced || c.renamed),
	})
	n.mark(e.id, time.Time{})
	n.keepNodes(e)
}

// confirm updates the holders of a reserved device, if they have changed.
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
	n.keepNodes(e) // marks the devices that have its nodes now
	n.changes = append(n.changes, heldChange(e))
}

func heldChange(e *entry) change {
	c := e.reservation
	return change{
		Change: Change{ID: e.id, New: c.device}, kind: deviceHeld, renamed: c.renamed, other: c.other,
		renumbered: c.standing == renumbered, reshaped: c.reshaped, holders: c.holders,
	}
}
