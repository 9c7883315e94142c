package inventory

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// reconcile publishes the marked slots and returns the changes since the last call, in the
// order in which they happened.
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

// reconcileSlot publishes one slot.
func (n *node) reconcileSlot(s *slot, cause, now time.Time) {
	before := s.device
	if c := s.claim; c != nil && c.free && !n.isFormer(s) {
		n.release(s, "free", now) // here, because the answer may have arrived while the unit was of an earlier generation
	}
	switch {
	case s.unit != nil:
		s.device = n.present(s, cause, now)
		s.unit.device = s.device
	case s.claim != nil:
		s.device = n.tombstone(s)
	default:
		s.device = nil
	}
	s.justReleased = false
	if s.device != before {
		n.list(s)
		n.hinted = earlier(n.hinted, cause)
		if !sameNodes(before, s.device) {
			n.reserveNodes(s)
		}
	}
	if s.device != nil {
		n.noteGiven(s)
	}
	if s.claim != nil || s.contends || len(s.lost.nodes) > 0 {
		n.waiting[s.id] = true
		return
	}
	delete(n.waiting, s.id)
	if s.device == nil && len(s.nodes) == 0 && len(s.holders) == 0 {
		delete(n.slots, s.id)
	}
}

// present returns the device of a slot whose unit is present.
func (n *node) present(s *slot, cause, now time.Time) *Device {
	u := s.unit
	d := u.describe()
	if n.isFormer(s) { // the name is set when the card has been read through the families of the new mode
		d.OfferedAs = u.device.OfferedAs
	} else {
		n.settle(s, d, now)
	}
	rules := n.rules
	if n.unwanted(d) {
		rules.flapLimit = 0 // a virtual machine may reset it at any time
	}
	v := s.health.judge(now, n.conditions(s, d, now), rules)
	d.Health, d.Reasons, d.Fault = v.health, v.reasons, v.fault
	n.recheckAt(u.card, v.recheck)
	if d.Health != Unhealthy {
		u.added = time.Time{}
	}
	if u.device != nil && u.device.equal(d) {
		return u.device
	}
	n.note(s, d, cause, now)
	n.loseNodes(s, d, now)
	return d
}

// conditions returns the conditions of d, the present device of a slot: those of its reading, of its card, of the claim,
// of holders and of the administrator.
func (n *node) conditions(s *slot, d *Device, now time.Time) []Condition {
	all := n.policy.apply(slices.Clone(s.unit.conditions))
	all = append(all, n.cards[s.unit.card].trouble...)
	add := func(reason string, has bool) {
		if has {
			all = append(all, Condition{Reason: reason, Health: Unhealthy})
		}
	}
	add(ReasonPortMissing, n.awaitsPorts(s.unit, now))
	if s.claim != nil {
		add(s.claim.reason(), true)
	}
	// Before the first list, the answer may still arrive in time.
	add(ReasonHoldersUnknown, s.claim == nil && n.holders.Awaiting && n.ready && d.OfferedAs != "")
	changed, inUse := n.nodeChanged(s, d), n.conflicts(s, d)
	s.contends = changed || inUse
	add(ReasonNodeChanged, changed)
	add(ReasonNodeInUse, inUse)
	add(ReasonHeldTwice, n.holders.Shared[s.id] != nil)
	for _, reason := range n.policy.excludes(d) {
		add(reason, true)
	}
	return all
}

// awaitsPorts reports whether a new unit waits for the other ports of its card. The kernel adds and binds them one after
// the other, and a container must get all of them. A port that is still missing after portsTimeout has been released for
// virtual functions.
func (n *node) awaitsPorts(u *unit, now time.Time) bool {
	until := u.added.Add(portsTimeout)
	if !u.last.Partial || !now.Before(until) {
		return false
	}
	n.recheckAt(u.card, until)
	return true
}

// tombstone returns the device of a slot with a claim and without a unit.
func (n *node) tombstone(s *slot) *Device {
	d, was := *s.claim.device, s.claim.reshaped
	if n.reshape(s, &d); s.claim.reshaped != was {
		n.changes = append(n.changes, heldChange(s))
	}
	d.Reasons = []string{s.claim.reason()}
	if n.holders.Shared[s.id] != nil {
		d.Reasons = append(d.Reasons, ReasonHeldTwice)
	}
	if s.device != nil && s.device.equal(&d) {
		return s.device
	}
	return &d
}

// reshape updates whether the claimed device was given out in another mode, while its card is still there. If it was, m
// gets its nodes, and is at fault if a device with one of them is.
func (n *node) reshape(s *slot, m *Device) {
	s.claim.reshaped = false
	given, card := nodesGiven(n.holders.of(s.id)), n.cards[addressOf(s.id)]
	if !s.claim.held || len(given) == 0 || card == nil || card.former {
		return
	}
	var present []string
	for _, u := range card.units {
		was := s.claim.identity
		if was.family = u.family; was.compare(u.identity, true) == other {
			return // another card
		}
		present = slices.Concat(present, u.last.Nodes, u.last.NodeNumbers)
	}
	if lacks(present, given) {
		return
	}
	s.claim.reshaped = true
	amongGiven := func(nodes []string) []string {
		return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return !slices.Contains(given, node) })
	}
	for _, u := range card.units {
		names := amongGiven(u.last.Nodes)
		m.Nodes, m.NodeNumbers = append(m.Nodes, names...), append(m.NodeNumbers, amongGiven(u.last.NodeNumbers)...)
		if len(names) > 0 {
			m.SharedNodes, m.Family = u.last.SharedNodes, u.family
			m.Fault = m.Fault || u.device != nil && u.device.Fault
		}
	}
}

func (n *node) unwanted(d *Device) bool { return n.policy.Name != nil && d.Unwanted() }

// portsTimeout is how long a new device waits for all ports of its card.
const portsTimeout = time.Second

// isFormer reports whether the unit in a slot is of an earlier generation.
func (n *node) isFormer(s *slot) bool { return s.unit != nil && n.cards[s.unit.card].former }

// noteUnnamed adds a change, once, if a device has had no name for [rules.unnamed]. A new unit
// may lack its AFU id for some milliseconds.
func (n *node) noteUnnamed(s *slot, err error, now time.Time) {
	u := s.unit
	if err == nil {
		u.unnamed, u.logged = time.Time{}, false
		return
	}
	if u.unnamed.IsZero() {
		u.unnamed = now
	}
	switch until := u.unnamed.Add(n.rules.unnamed); {
	case u.logged:
	case now.Before(until):
		n.recheckAt(u.card, until)
	default:
		u.logged = true
		n.changes = append(n.changes, change{Change: Change{ID: s.id}, kind: deviceUnoffered, why: err.Error()})
	}
}

// note adds the change of a unit whose published state differs from before.
func (n *node) note(s *slot, d *Device, cause, now time.Time) {
	u := s.unit
	c := change{Change: Change{ID: s.id, Old: u.device, New: d}, kind: deviceListed, cause: cause, lasted: now.Sub(s.since), holders: namesOf(n.holders.of(s.id))}
	if u.device == nil {
		u.beingPlugged = n.ready && pluggedIn(d)
		c.warn = d.Health == Unhealthy && !u.beingPlugged && hasNewTrouble(&Device{}, d)
	} else {
		u.beingPlugged = u.beingPlugged && pluggedIn(d)
		c.warn = !u.beingPlugged && (d.Health > u.device.Health || hasNewTrouble(u.device, d))
	}
	if n.unwanted(d) {
		c.warn, c.quiet = false, u.device != nil
	}
	if u.device == nil || u.device.Health != d.Health {
		s.since = now
	}
	for _, w := range u.conditions {
		c.err = errors.Join(c.err, w.Err)
	}
	n.changes = append(n.changes, c)
}

// loseNodes keeps the nodes reserved that a present device had and no longer has: those of a port that was released from
// a region.
func (n *node) loseNodes(s *slot, d *Device, now time.Time) {
	u := s.unit
	if u.device != nil && n.asks && !s.justReleased && s.mayBeGiven(u) {
		s.lose(slices.DeleteFunc(nodesOf(u.device), func(node string) bool { return slices.Contains(nodesOf(d), node) }), now)
	}
}

// recheckAt makes the scheduler read a card again at t or earlier. It does nothing if t is zero.
func (n *node) recheckAt(address string, t time.Time) {
	if !t.IsZero() {
		n.recheck[address] = earlier(n.recheck[address], t)
	}
}

// list adds the device of a slot to the list, replaces it, or removes it. It copies the list first,
// because readers of the snapshot use the old list.
func (n *node) list(s *slot) {
	i, found := slices.BinarySearchFunc(n.devices, s.id, compareID)
	if !n.copied {
		n.devices, n.copied, n.changed = slices.Clone(n.devices), true, true
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

// plugging has the sets of reasons of a device while its card is being plugged in, each for some
// milliseconds: the kernel binds the FME, adds the ports, and binds them.
var plugging = [][]string{
	{ReasonFMEUnbound, ReasonNoPort}, {ReasonNoPort}, // of a region
	{ReasonDriverUnbound, ReasonPortMissing}, {ReasonPortMissing}, {ReasonPortMissing, noFilesYet}, // of a region with several ports
	{ReasonDriverUnbound}, {noFilesYet}, {ReasonLoading},
}

// noFilesYet is the reason of a port while its driver binds: the driver core adds the link
// driver before the driver's own files (really_probe, drivers/base/dd.c).
const noFilesYet = ReasonUnreadable + "=id"

// pluggedIn reports whether d has only reasons that are normal while its card is plugged in.
func pluggedIn(d *Device) bool {
	return slices.ContainsFunc(plugging, func(reasons []string) bool { return slices.Equal(reasons, d.Reasons) })
}

// hasNewTrouble reports whether d has a reason, other than recovering, that old did not have.
func hasNewTrouble(old, d *Device) bool {
	return slices.ContainsFunc(d.Reasons, func(reason string) bool {
		return !strings.HasPrefix(reason, ReasonRecovering+"=") && !slices.Contains(old.Reasons, reason)
	})
}

// earlier returns the earlier of two times. A zero time is ignored.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
