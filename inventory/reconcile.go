package inventory

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// reconcile publishes the marked entries and returns the changes since the last call, in the
// order in which they happened.
func (n *node) reconcile(now time.Time) []change {
	for len(n.marked) > 0 {
		e, cause := n.entries[n.marked[0]], n.causes[n.marked[0]]
		delete(n.causes, n.marked[0])
		n.marked = n.marked[1:]
		if e != nil {
			n.reconcileEntry(e, cause, now)
		}
	}
	changes := n.changes
	n.changes = nil
	return changes
}

// reconcileEntry publishes one entry.
func (n *node) reconcileEntry(e *entry, cause, now time.Time) {
	before := e.device
	if c := e.reservation; c != nil && c.free && !n.isFormer(e) {
		n.release(e, "free", now) // when the answer arrived, the unit may still have been from an earlier generation
	}
	switch {
	case e.unit != nil:
		e.device = n.present(e, cause, now)
		e.unit.device = e.device
	case e.reservation != nil:
		e.device = n.tombstone(e)
	default:
		e.device = nil
	}
	e.justReleased = false
	if e.device != before {
		n.list(e)
		n.hinted = earlier(n.hinted, cause)
		if !sameNodes(before, e.device) {
			n.keepNodes(e)
		}
	}
	if e.device != nil {
		n.noteGiven(e)
	}
	if e.reservation != nil || e.contends || len(e.lost.nodes) > 0 {
		n.waiting[e.id] = true
		return
	}
	delete(n.waiting, e.id)
	if e.device == nil && len(e.nodes) == 0 && len(e.holders) == 0 {
		delete(n.entries, e.id)
	}
}

// present returns the device to list for an entry whose unit is present.
func (n *node) present(e *entry, cause, now time.Time) *Device {
	u := e.unit
	d := u.describe()
	if n.isFormer(e) { // the name is set once the card has been read through the new mode's families
		d.OfferedAs = u.device.OfferedAs
	} else {
		n.settle(e, d, now)
	}
	rules := n.rules
	if n.unwanted(d) {
		rules.flapLimit = 0 // a virtual machine may reset it as often as it likes
	}
	n.recall(e, d, now)
	v := e.health.judge(now, n.conditions(e, d, now), rules)
	d.Health, d.Reasons, d.Fault, d.Cause, d.Memory = v.health, v.reasons, v.fault, v.cause, e.health.memory()
	n.recheckAt(u.card, v.recheck)
	if d.Health != Unhealthy {
		u.added = time.Time{}
	}
	if u.device != nil && u.device.equal(d) {
		return u.device
	}
	n.note(e, d, cause, now)
	n.loseNodes(e, d, now)
	return d
}

// conditions returns all conditions of d, the entry's present device. They come from the unit's reading, the card as a
// whole, the reservation, the holders and the administrator's settings.
func (n *node) conditions(e *entry, d *Device, now time.Time) []Condition {
	all := n.policy.apply(slices.Clone(e.unit.conditions))
	all = append(all, n.cards[e.unit.card].trouble...)
	add := func(reason string, has bool) {
		if has {
			all = append(all, Condition{Reason: reason, Health: Unhealthy})
		}
	}
	add(ReasonPortMissing, n.awaitsPorts(e.unit, now))
	if e.reservation != nil {
		add(e.reservation.reason(), true)
	}
	// Don't add this condition before the first list is published, because the answer about holders may still arrive in
	// time.
	add(ReasonHoldersUnknown, e.reservation == nil && n.holders.Awaiting && n.ready && d.OfferedAs != "")
	changed, inUse := n.nodeChanged(e, d), n.conflicts(e, d)
	e.contends = changed || inUse
	add(ReasonNodeChanged, changed)
	add(ReasonNodeInUse, inUse)
	add(ReasonHeldTwice, n.holders.Shared[e.id] != nil)
	for _, reason := range n.policy.excludes(d) {
		add(reason, true)
	}
	return all
}

// awaitsPorts reports whether a new unit is waiting for its card's other ports. The kernel adds and binds them one by
// one, and a container must get all of them. A port that is still missing after portsTimeout must have been released
// for use by a virtual function.
func (n *node) awaitsPorts(u *unit, now time.Time) bool {
	until := u.added.Add(portsTimeout)
	if !u.last.Partial || !now.Before(until) {
		return false
	}
	n.recheckAt(u.card, until)
	return true
}

// tombstone returns the device to list for an entry that has a reservation but no unit.
func (n *node) tombstone(e *entry) *Device {
	d, was := *e.reservation.device, e.reservation.reshaped
	if n.reshape(e, &d); e.reservation.reshaped != was {
		n.changes = append(n.changes, heldChange(e))
	}
	d.Reasons = []string{e.reservation.reason()}
	if n.holders.Shared[e.id] != nil {
		d.Reasons = append(d.Reasons, ReasonHeldTwice)
	}
	if e.device != nil && e.device.equal(&d) {
		return e.device
	}
	return &d
}

// reshape updates reservation.reshaped, which says whether the reserved device was allocated in another mode and its
// card is still present. If so, m gets the allocated nodes, and it is marked as faulty if any present device with one
// of these nodes is faulty.
func (n *node) reshape(e *entry, m *Device) {
	e.reservation.reshaped = false
	given, card := nodesGiven(n.holders.of(e.id)), n.cards[addressOf(e.id)]
	if !e.reservation.held || len(given) == 0 || card == nil || card.former {
		return
	}
	var present []string
	for _, u := range card.units {
		was := e.reservation.identity
		if was.family = u.family; was.compare(u.identity, true) == different {
			return // a different card
		}
		present = slices.Concat(present, u.last.Nodes, u.last.NodeNumbers)
	}
	if lacks(present, given) {
		return
	}
	e.reservation.reshaped = true
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

// portsTimeout is how long a new device waits for all of its card's ports to appear.
const portsTimeout = time.Second

// isFormer reports whether an entry's unit is from an earlier generation.
func (n *node) isFormer(e *entry) bool { return e.unit != nil && n.cards[e.unit.card].former }

// noteUnnamed records a single change once a device has had no name for at least rules.unnamed. The delay avoids
// reporting a new unit that just lacks its AFU id for a few milliseconds.
func (n *node) noteUnnamed(e *entry, err error, now time.Time) {
	u := e.unit
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
		n.changes = append(n.changes, change{Change: Change{ID: e.id}, kind: deviceUnoffered, why: err.Error()})
	}
}

// note records that a unit's published device has changed to d.
func (n *node) note(e *entry, d *Device, cause, now time.Time) {
	u := e.unit
	c := change{Change: Change{ID: e.id, Old: u.device, New: d}, kind: deviceListed, cause: cause, lasted: now.Sub(e.since), holders: namesOf(n.holders.of(e.id))}
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
		e.since = now
	}
	for _, w := range u.conditions {
		c.err = errors.Join(c.err, w.Err)
	}
	n.changes = append(n.changes, c)
}

// loseNodes keeps the nodes that a present device has lost, for example when a port is released from its region.
func (n *node) loseNodes(e *entry, d *Device, now time.Time) {
	u := e.unit
	if u.device != nil && n.asks && !e.justReleased && e.mayBeGiven(u) {
		e.lose(slices.DeleteFunc(nodesOf(u.device), func(node string) bool { return slices.Contains(nodesOf(d), node) }), now)
	}
}

// recheckAt makes the scheduler read a card again at t or earlier. It does nothing if t is zero.
func (n *node) recheckAt(address string, t time.Time) {
	if !t.IsZero() {
		n.recheck[address] = earlier(n.recheck[address], t)
	}
}

// list adds an entry's device to the list, replaces it, or removes it. It copies the list first, because readers of the
// newest snapshot are still using the old one.
func (n *node) list(e *entry) {
	i, found := slices.BinarySearchFunc(n.devices, e.id, compareID)
	if !n.copied {
		n.devices, n.copied, n.changed = slices.Clone(n.devices), true, true
	}
	switch {
	case e.device == nil && found:
		n.devices = slices.Delete(n.devices, i, i+1)
	case e.device != nil && found:
		n.devices[i] = e.device
	case e.device != nil:
		n.devices = slices.Insert(n.devices, i, e.device)
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

// plugging lists the sets of reasons that a device has while its card is being plugged in, each for a few milliseconds.
// The kernel first binds the FME, then adds the ports and binds them.
var plugging = [][]string{
	{ReasonFMEUnbound, ReasonNoPort}, {ReasonNoPort}, // a region
	{ReasonDriverUnbound, ReasonPortMissing}, {ReasonPortMissing}, {ReasonPortMissing, noFilesYet}, // a region with several ports
	{ReasonDriverUnbound}, {noFilesYet}, {ReasonLoading},
}

// noFilesYet is a port's reason while its driver is binding, because the driver core creates the driver link before the
// driver's own files (really_probe, drivers/base/dd.c).
const noFilesYet = ReasonUnreadable + "=id"

// pluggedIn reports whether d has only reasons that are normal while its card is being plugged in.
func pluggedIn(d *Device) bool {
	return slices.ContainsFunc(plugging, func(reasons []string) bool { return slices.Equal(reasons, d.Reasons) })
}

// hasNewTrouble reports whether a device has a reason that it didn't have before. The reason "recovering" doesn't
// count.
func hasNewTrouble(old, d *Device) bool {
	return slices.ContainsFunc(d.Reasons, func(reason string) bool {
		return !strings.HasPrefix(reason, ReasonRecovering+"=") && !slices.Contains(old.Reasons, reason)
	})
}

// earlier returns the earliest of these times. Zero times are ignored.
func earlier(times ...time.Time) (earliest time.Time) {
	for _, t := range times {
		if earliest.IsZero() || !t.IsZero() && t.Before(earliest) {
			earliest = t
		}
	}
	return earliest
}
