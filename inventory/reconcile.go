package inventory

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// What is published of a slot, by what is present and what is claimed:
//
//	present   claim     compared         free, or grace over   holder unknown  held
//	yes       none                       own name, own health
//	no        any                        nothing               removed         removed-in-use
//	yes       left      same             claim ends, hold      same            same
//	yes       left      too little known own name, hold        + removed       + removed-in-use
//	yes       left      another one      own name, hold        + replaced-in-use
//	yes       left      other nodes      own name, hold        + node-changed
//	yes       renamed   old name again   claim ends, no hold   same            same
//	yes       renamed   another name     own name, no hold     + moving        + replaced-in-use
//	yes       renamed   no name          own name, no hold     + moving        + moving
//
// "+ reason" is listed under the name of the claim, unhealthy, with what is present, its
// reasons and this one. A renamed device that leaves has left.

// claim is what somebody may still rely on: that a device is listed under a name.
type claim struct {
	device   *Device   // as it was, for the list while nothing is present
	what     identity  // of the device; empty if only its name is known
	since    time.Time // the claim began
	renamed  bool      // the device has not left: its name has changed
	held     bool      // by the newest answer
	holders  []string  // by the same
	free     bool      // an answer that was asked for since then names no holder
	standing standing
}

// standing is how what is present compares with what is claimed.
type standing uint8

const (
	absent     standing = iota // nothing is present
	undecided                  // not enough is known yet, or it has no name yet
	replaced                   // another device is present, or the same under another name
	renumbered                 // the device is present, under other nodes than its holders were given
	identical                  // the device is present
)

// reason returns why a device in this state cannot be given to a container.
func (c *claim) reason() string {
	switch {
	case c.renamed && !(c.standing == replaced && c.held):
		return ReasonMoving
	case c.standing == replaced:
		return ReasonReplacedInUse
	case c.standing == renumbered:
		return ReasonNodeChanged
	case c.held:
		return ReasonRemovedInUse
	}
	return ReasonRemoved
}

// markerOf returns what stands on the list for a device that left.
func markerOf(d *Device) *Device {
	m := *d
	m.Health, m.Reasons = Unhealthy, nil
	m.Nodes, m.NodeNumbers, m.Parent, m.ParentNodes, m.Annotations = nil, nil, "", nil, nil
	return &m
}

// reconcile brings the published devices up to date and returns what changed since the last
// call, in the order in which it came about.
func (n *node) reconcile(now time.Time) []change {
	for len(n.marked) > 0 {
		s, cause := n.slots[n.marked[0]], n.causes[n.marked[0]]
		delete(n.causes, n.marked[0])
		n.marked = n.marked[1:]
		if s != nil {
			n.reconcileSlot(s, cause, now)
		}
	}
	changes := n.changes
	n.changes = nil
	return changes
}

// reconcileSlot publishes one slot by the table above.
func (n *node) reconcileSlot(s *slot, cause, now time.Time) {
	before := s.device
	former := n.isFormer(s)
	if c := s.claim; c != nil && c.free && !former { // as it was while its card was read again
		n.release(s, "free", now)
	}
	switch u := s.unit; {
	case u != nil:
		d := u.describe()
		if former { // its name is settled when it has been read through the families of this generation
			d.OfferedAs = u.device.OfferedAs
		} else {
			n.settle(s, d, now)
		}
		conditions := n.policy.apply(slices.Clone(u.wrong))
		if until := u.came.Add(portsComeWithin); u.last.Partial && now.Before(until) {
			// The kernel adds and binds the ports of a card one after the other, and half a card is
			// given to no container. A port that is not there after a while has been released for
			// virtual functions.
			conditions = append(conditions, Condition{Reason: ReasonPortMissing, Health: Unhealthy})
			n.recheckAt(u.card, until)
		} else {
			s.health.clear(ReasonPortMissing) // nothing to recover from, even if the rest of it was here before
		}
		conditions = append(conditions, n.cards[u.card].trouble...)
		if s.claim != nil {
			conditions = append(conditions, Condition{Reason: s.claim.reason(), Health: Unhealthy})
		}
		conditions = append(conditions, n.contend(s, d)...)
		if n.policy.excludes(s.id) {
			conditions = append(conditions, Condition{Reason: ReasonExcluded, Health: Unhealthy})
		}
		v := s.health.judge(now, conditions, n.rules)
		d.Health, d.Reasons = v.health, v.reasons
		n.recheckAt(u.card, v.recheck)
		if d.Health != Unhealthy {
			u.came = time.Time{}
		}
		if u.device != nil && u.device.equal(d) {
			d = u.device
		} else {
			n.note(s, u, d, cause, now)
		}
		s.device, u.device = d, d
	case s.claim != nil:
		m := *s.claim.device
		m.Reasons = []string{s.claim.reason()}
		if before == nil || !before.equal(&m) {
			s.device = &m
		}
	default:
		s.device = nil
	}
	s.free = false
	if s.device != before {
		n.list(s)
		n.hinted = earlier(n.hinted, cause)
		if !sameNodes(before, s.device) {
			n.claimNodes(s)
		}
	}
	if s.claim != nil || s.contends || len(s.lost.nodes) > 0 || !s.released.since.IsZero() {
		n.waiting[s.id] = true
	} else {
		delete(n.waiting, s.id)
		if s.device == nil && len(s.nodes) == 0 {
			delete(n.slots, s.id)
		}
	}
}

// portsComeWithin is how long the ports of a card that has been plugged in are waited for.
const portsComeWithin = time.Second

// isFormer reports whether the unit in a slot is of an earlier generation.
func (n *node) isFormer(s *slot) bool { return s.unit != nil && n.cards[s.unit.card].former }

// settle begins, compares and ends the claim on a slot in which d is present, and names d.
func (n *node) settle(s *slot, d *Device, now time.Time) {
	old, name := s.unit.device, ""
	if n.policy.Name != nil {
		var lacks error
		name, lacks = n.policy.Name(d)
		n.noteUnnamed(s, lacks, now)
	}
	holdings := n.holders.held[s.id]
	_, heldByName := heldAs(holdings, name)

	switch c := s.claim; {
	case c != nil && c.renamed && name == c.device.OfferedAs:
		n.endClaim(s, change{kind: deviceRenamedBack, quiet: !c.held}, now)
		s.health.clear(ReasonMoving, ReasonReplacedInUse)
	case c != nil && c.renamed && name == "":
		c.standing = undecided
	case c != nil && c.renamed:
		c.standing = replaced
		if c.held {
			s.health.clear(ReasonMoving) // it has become replaced-in-use
		}
	case c != nil:
		c.standing = n.compare(s, d, name)
		if c.standing == identical {
			n.endClaim(s, change{kind: deviceReturned}, now)
			if !lacks(nodesOf(d), s.lost.nodes) {
				s.lost = lost{}
			}
		}
	case n.policy.Name == nil:
	case old != nil && old.OfferedAs != "" && old.OfferedAs != name && !s.free && n.asks:
		// A device that was never offered, and is not held, need not wait: a rule for an AFU
		// does not match a port that has just come and stands unbound.
		if _, held := heldAs(holdings, old.OfferedAs); held || s.health.offered {
			s.claim = &claim{device: markerOf(old), what: identityOf(old), since: now, renamed: true, standing: undecided}
			if name != "" {
				s.claim.standing = replaced
			}
		}
		n.holders.ask = earlier(n.holders.ask, now)
	case len(holdings) > 0 && (!heldByName || name == "") && (n.holders.err == "" || now.Before(n.expiry(n.holders.heldAt))):
		// Given out under another name before this daemon began: only the name is known. While
		// questions fail, the newest answer counts for the grace time.
		s.claim = &claim{device: markerOf(d), since: now, renamed: true, standing: undecided}
		s.claim.device.OfferedAs = holdings[0].As
		if name != "" {
			s.claim.standing = replaced
		}
		n.noteHeld(s, holdings[0])
		n.holders.ask = earlier(n.holders.ask, n.holders.heldAt.Add(n.rules.interval))
	}

	d.OfferedAs = name
	if s.claim != nil && n.policy.Name != nil {
		d.OfferedAs = s.claim.device.OfferedAs
	}
}

// compare returns how d, which is present and would be offered under this name, compares with
// the device that left the slot.
func (n *node) compare(s *slot, d *Device, name string) standing {
	like := s.claim.what.compare(s.unit.what, n.policy.AnyAFU)
	switch {
	case like == unknown, like == same && n.policy.Name != nil && name == "": // what it lacks may come
		return undecided
	case like == other, n.policy.Name != nil && name != s.claim.device.OfferedAs:
		return replaced
	case len(d.Nodes) == 0 && len(s.lost.nodes) > 0: // a region whose ports are yet to come
		return undecided
	case s.cameBackElsewhere(n, nodesOf(d)):
		return renumbered
	}
	return identical
}

// endClaim ends the claim on a slot whose device is back.
func (n *node) endClaim(s *slot, as change, now time.Time) {
	as.Change, as.lasted, as.holders = Change{ID: s.id, New: s.claim.device}, now.Sub(s.claim.since), s.claim.holders
	n.changes = append(n.changes, as)
	s.claim = nil
}

// release ends the claim on a slot: nobody holds the device any more, or nobody could tell
// for long enough.
func (n *node) release(s *slot, why string, now time.Time) {
	c := s.claim
	s.claim, s.free, s.lost = nil, s.unit != nil, lost{}
	if c.renamed {
		s.health.clear(ReasonMoving, ReasonReplacedInUse) // that it has waited is nothing to recover from
	}
	n.changes = append(n.changes, change{
		Change: Change{ID: s.id, New: c.device}, kind: deviceReleased, renamed: c.renamed, lasted: now.Sub(c.since), why: why,
		// It was free all along: that it was removed has been logged.
		quiet: !c.held && n.holders.err == "" && c.standing != renumbered && (c.standing != replaced || c.renamed),
	})
	n.mark(s.id, time.Time{})
	n.claimNodes(s)
}

// confirm takes note of the holders of a device on which there is a claim.
func (n *node) confirm(s *slot, h Holding) {
	if !s.claim.held || !slices.Equal(s.claim.holders, h.Holders) {
		n.noteHeld(s, h)
		n.mark(s.id, time.Time{})
	}
}

func (n *node) noteHeld(s *slot, h Holding) {
	c := s.claim
	c.held, c.holders = true, h.Holders
	n.claimNodes(s) // a device that has its nodes now is judged again
	n.changes = append(n.changes, change{
		Change: Change{ID: s.id, New: c.device}, kind: deviceHeld, renamed: c.renamed, renumbered: c.standing == renumbered, holders: h.Holders,
	})
}

// noteUnnamed takes note, once, of what a device lacks to be offered. A unit that has just come
// may lack it for some milliseconds.
func (n *node) noteUnnamed(s *slot, lacks error, now time.Time) {
	switch u := s.unit; {
	case lacks == nil:
		u.unnamed, u.noted = time.Time{}, false
	case u.unnamed.IsZero():
		u.unnamed = now
	case !u.noted && now.Sub(u.unnamed) >= n.rules.unnamed:
		u.noted = true
		n.changes = append(n.changes, change{Change: Change{ID: s.id}, kind: deviceUnoffered, why: lacks.Error()})
	}
}

// note takes note that a unit is published as another device than before.
func (n *node) note(s *slot, u *unit, d *Device, cause, now time.Time) {
	c := change{Change: Change{ID: s.id, Old: u.device, New: d}, kind: deviceListed, cause: cause, lasted: now.Sub(s.since)}
	if u.device == nil {
		u.coming = n.ready && pluggedIn(d)
		c.warn = d.Health == Unhealthy && !u.coming && hasNewTrouble(&Device{}, d) // it was like that when it was first read
	} else {
		u.coming = u.coming && pluggedIn(d)
		c.warn = !u.coming && (d.Health > u.device.Health || hasNewTrouble(u.device, d))
	}
	if u.device == nil || u.device.Health != d.Health {
		s.since = now
	}
	var errs []error
	for _, w := range u.wrong {
		errs = append(errs, w.Err)
	}
	c.err = errors.Join(errs...)
	n.changes = append(n.changes, c)
	if u.device != nil && n.asks && !s.free {
		gone := slices.DeleteFunc(nodesOf(u.device), func(node string) bool { return slices.Contains(nodesOf(d), node) })
		s.lose(gone, now) // of a region: a port has gone
	}
}

// recheckAt has a card read again at t, or before; zero: never.
func (n *node) recheckAt(address string, t time.Time) {
	if !t.IsZero() {
		n.recheck[address] = earlier(n.recheck[address], t)
	}
}

// list puts the device of a slot on the list, in the place of one with the same id, or takes
// it off. The list is copied: the old one belongs to the readers of the snapshot.
func (n *node) list(s *slot) {
	i, found := slices.BinarySearchFunc(n.devices, s.id, compareID)
	if !n.copied {
		n.devices, n.copied, n.news = slices.Clone(n.devices), true, true
	}
	switch {
	case s.device == nil && found:
		n.devices = slices.Delete(n.devices, i, i+1)
	case s.device != nil && found:
		n.devices[i] = s.device
	case s.device != nil:
		n.devices = slices.Insert(n.devices, i, s.device)
	}
}

func sameNodes(a, b *Device) bool {
	var before, after []string
	if a != nil {
		before = nodesOf(a)
	}
	if b != nil {
		after = nodesOf(b)
	}
	return slices.Equal(before, after)
}

// plugging has the reasons that a device has in turn, for some milliseconds each,
// when its card is plugged in: the kernel binds the FME, makes the ports, binds them.
var plugging = [][]string{
	{ReasonFMEUnbound, ReasonNoPort}, {ReasonNoPort}, // of a region
	{ReasonDriverUnbound, ReasonPortMissing}, {ReasonPortMissing}, {ReasonPortMissing, noFilesYet}, // of one with several ports
	{ReasonDriverUnbound}, {noFilesYet},
}

// noFilesYet is the reason of a port that is just being bound: the driver core makes the entry
// driver before the driver's own files (really_probe, drivers/base/dd.c).
const noFilesYet = ReasonUnreadable + "=id"

// pluggedIn reports whether nothing is wrong with d but what being plugged in explains.
func pluggedIn(d *Device) bool {
	return slices.ContainsFunc(plugging, func(reasons []string) bool { return slices.Equal(reasons, d.Reasons) })
}

// hasNewTrouble reports whether d has a reason that old did not have.
func hasNewTrouble(old, d *Device) bool {
	return slices.ContainsFunc(d.Reasons, func(reason string) bool {
		return !strings.HasPrefix(reason, ReasonRecovering+"=") && !slices.Contains(old.Reasons, reason)
	})
}
