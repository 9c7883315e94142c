package inventory

import (
	"slices"
	"time"
)

// A slot is published by two tables. Without a claim, the present device is listed under its own name, with its own
// health. A claim keeps a device listed under the name under which a container holds it, or may hold it, unhealthy with
// a reason from claimReasons. While a device is present, the reason is added to its own ones.
//
// There are two kinds of claims: on a device that has left, and on a device that is present but held, or perhaps held,
// under another name than its own. If a renamed device leaves, its claim becomes one of the first kind. A claim ends
//
//   - when an answer shows that the claimed device has no holder, or there has been no answer for the grace time;
//   - when the claimed device is identical to the present one: it has returned, or has its old name again.
//
// A device that has left and returned must pass the recovery hold, and so must another device in its place. Otherwise
// a claim ends without a hold, because the hardware was well.

// claimReasons has the reason of a claim, by what is known of the present device: first while the holders of the claimed
// device are not known, then while it is held. Two properties of a claim come first: a device that is held through the
// other API has the reason held-other-api (package kubelet/holders decides when it is free), and a device that was given
// out in another mode, on a card that is present, has the reason former-mode.
var claimReasons = map[bool]map[standing][2]string{
	false: { // the claimed device has left
		absent:     {ReasonRemoved, ReasonRemovedInUse},
		undecided:  {ReasonRemoved, ReasonRemovedInUse},
		replaced:   {ReasonReplacedInUse, ReasonReplacedInUse},
		renumbered: {ReasonNodeChanged, ReasonNodeChanged},
	},
	true: { // the claimed device is renamed
		undecided: {ReasonMoving, ReasonMoving},
		replaced:  {ReasonMoving, ReasonReplacedInUse},
	},
}

// claim keeps a device listed under a name that a container holds, or may hold.
type claim struct {
	device   *Device   // the former device, which is listed while no device is present
	identity identity  // of the former device; empty if only its name is known
	since    time.Time // when the claim began
	renamed  bool      // the device has not left: its name has changed
	held     bool      // the kubelet's newest answer has holders of the device
	holders  []string  // in the newest answer
	free     bool      // the kubelet was asked after the claim began, and its answer has no holder of the device
	other    bool      // the device is held through the other API
	standing standing
	// reshaped: no device is present, but its card is, with the nodes that the holders were given. The device was
	// given out in another mode: as a port of a card, or as a card with its ports.
	reshaped bool
	// moved: the device has been renumbered since the claim began. Its holders may have any of
	// the nodes that it has had since then.
	moved bool
}

// standing is the result of comparing the present device with the claimed one.
type standing uint8

const (
	absent     standing = iota // no device is present
	undecided                  // the identity or the name of the present device is not complete yet
	replaced                   // the present device differs from the claimed one, in its identity or its name
	renumbered                 // the claimed device is present, with other nodes than its holders were given
	identical                  // the claimed device is present
)

// reason returns the reason for which the claimed device is unhealthy.
func (c *claim) reason() string {
	reasons := claimReasons[c.renamed][c.standing]
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

// claimOf returns a claim on a device of which only a holding is known.
func claimOf(id string, h Holding, now time.Time) *claim {
	d := &Device{ID: id, OfferedAs: h.As, Health: Unhealthy, PCIAddress: addressOf(id), Facts: Facts{NUMANode: -1, PortID: -1}}
	if d.PCIAddress != "" {
		d.PortID = portOf(id)
	}
	if h.Given != nil {
		d.Family, d.PCIID, d.AFUID, d.InterfaceID = h.Given.Family, h.Given.PCIID, h.Given.AFUID, h.Given.InterfaceID
	}
	return &claim{device: d, identity: identityOf(d), since: now}
}

// settle begins, compares or ends the claim on a slot in which d is present, and sets the name of d.
func (n *node) settle(s *slot, d *Device, now time.Time) {
	if n.policy.Name == nil { // no device is offered
		if s.claim != nil {
			n.compareClaim(s, d, "", now)
		}
		return
	}
	name, err := n.policy.Name(d)
	n.noteUnnamed(s, err, now)
	n.claimSwapped(s, name, now)
	if s.claim != nil {
		n.compareClaim(s, d, name, now)
	} else {
		n.claimRenamed(s, name, now)
	}
	n.claimHeldElsewhere(s, d, name, now)
	d.OfferedAs = name
	if s.claim != nil {
		d.OfferedAs = s.claim.device.OfferedAs
	}
}

// claimSwapped begins a claim if containers hold another card than the present one: the cards were swapped while no
// daemon ran.
func (n *node) claimSwapped(s *slot, name string, now time.Time) {
	h, held := heldAs(n.holders.of(s.id), name)
	if s.claim == nil && held && h.Given != nil && identityOf(h.Given).compare(s.unit.identity, true) == other {
		s.claim = claimOf(s.id, h, now)
		n.holders.ask = earlier(n.holders.ask, now)
	}
}

// compareClaim compares the present device with the claimed one, and ends the claim if they are identical.
func (n *node) compareClaim(s *slot, d *Device, name string, now time.Time) {
	c := s.claim
	switch {
	case c.renamed && name == c.device.OfferedAs:
		n.endClaim(s, change{kind: deviceRenamedBack, quiet: !c.held}, now)
		s.health.clear(ReasonReplacedInUse)
	case c.renamed && name == "":
		c.standing = undecided
	case c.renamed:
		c.standing = replaced
	default:
		c.standing, c.reshaped = n.compare(s, d, name), false
		c.moved = c.moved || c.standing == renumbered
		if c.standing == identical {
			n.endClaim(s, change{kind: deviceReturned}, now)
			if !lacks(nodesOf(d), s.lost.nodes) {
				s.lost = lost{}
			}
		}
	}
}

// claimRenamed begins a claim if the present device had another name. A device that was never offered and is not held
// changes its name at once: a rule for an AFU does not match a new port until its driver binds.
func (n *node) claimRenamed(s *slot, name string, now time.Time) {
	old := s.unit.device
	if old == nil || old.OfferedAs == "" || old.OfferedAs == name || s.justReleased || !n.asks {
		return
	}
	if _, held := heldAs(n.holders.Of[s.id], old.OfferedAs); held || s.health.offered {
		s.claim = renamedClaim(old, old.OfferedAs, name, now)
		s.claim.identity = identityOf(old)
	}
	n.holders.ask = earlier(n.holders.ask, now)
}

// claimHeldElsewhere begins a claim if the device was given out under another name, by an earlier daemon or another one,
// or through the other API. It may be held under its own name, too. A device that is held through the other API stays
// withheld while questions fail: what the other API has given out, this daemon cannot take back.
func (n *node) claimHeldElsewhere(s *slot, d *Device, name string, now time.Time) {
	if s.claim != nil {
		return
	}
	holdings := n.holders.Of[s.id]
	held := otherHolding(holdings, name)
	if elsewhere, is := heldElsewhere(holdings); is {
		held = &elsewhere
	}
	if held != nil {
		s.claim = renamedClaim(d, held.As, name, now)
		s.claim.other = held.OtherAPI
		n.noteHeld(s, *held)
	}
}

// renamedClaim returns a claim on a present device which is held, or may be held, as another name than its own.
func renamedClaim(d *Device, as, name string, now time.Time) *claim {
	c := &claim{device: tombstoneOf(d), since: now, renamed: true, standing: undecided}
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

// compare compares d, the present device, with the device that left the slot. name is the name of d
// by the policy.
func (n *node) compare(s *slot, d *Device, name string) standing {
	holding, _ := heldAs(n.holders.of(s.id), s.claim.device.OfferedAs)
	like := s.claim.identity.compare(s.unit.identity, n.policy.AnyAFU || holding.AnyAFU)
	switch {
	case like == unknown, s.unit.guessed(d), like == same && n.policy.Name != nil && name == "": // a later reading may be complete
		return undecided
	case like == other, n.policy.Name != nil && name != s.claim.device.OfferedAs:
		return replaced
	case len(d.Nodes) == 0 && len(s.lost.nodes) > 0: // a region whose ports do not exist yet
		return undecided
	case s.hasReplacedNodes(n, nodesOf(d)):
		return renumbered
	}
	return identical
}

// endClaim ends the claim on a slot whose device has returned, or has its old name again.
func (n *node) endClaim(s *slot, as change, now time.Time) {
	as.Change, as.lasted, as.holders = Change{ID: s.id, New: s.claim.device}, now.Sub(s.claim.since), s.claim.holders
	n.changes = append(n.changes, as)
	s.claim = nil
}

// release ends the claim on a slot because the device has no holder, or because its holders
// have been unknown for the grace time. why is the reason for the log.
func (n *node) release(s *slot, why string, now time.Time) {
	c := s.claim
	s.claim, s.justReleased, s.lost = nil, s.unit != nil, lost{}
	s.health.clear(ReasonReplacedInUse)
	n.changes = append(n.changes, change{
		Change: Change{ID: s.id, New: c.device}, kind: deviceReleased, renamed: c.renamed, lasted: now.Sub(c.since), why: why,
		// At level debug if the device had no holder during the claim: its removal has been logged.
		quiet: !c.held && n.holders.Err == nil && c.standing != renumbered && (c.standing != replaced || c.renamed),
	})
	n.mark(s.id, time.Time{})
	n.reserveNodes(s)
}

// confirm updates the holders of a claimed device, if they have changed.
func (n *node) confirm(s *slot, h Holding) {
	if !s.claim.held || !slices.Equal(s.claim.holders, h.Holders) {
		n.noteHeld(s, h)
		n.mark(s.id, time.Time{})
	}
}

func (n *node) noteHeld(s *slot, h Holding) {
	c := s.claim
	c.held, c.holders = true, h.Holders
	if s.unit == nil {
		n.reshape(s, &Device{})
	}
	n.reserveNodes(s) // marks the devices that have its nodes now
	n.changes = append(n.changes, heldChange(s))
}

func heldChange(s *slot) change {
	c := s.claim
	return change{
		Change: Change{ID: s.id, New: c.device}, kind: deviceHeld, renamed: c.renamed, other: c.other,
		renumbered: c.standing == renumbered, reshaped: c.reshaped, holders: c.holders,
	}
}
