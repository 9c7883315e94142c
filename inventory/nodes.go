package inventory

import (
	"maps"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// A container that was given a device node may open the node's number until the
// container ends. When it is restarted, it may get the node that has the same name by
// then. After a card has left, drivers give its names and numbers to the next card. So a
// device is offered only while no other device has a claim on its nodes.
//
// A device has a claim on the names and numbers of the nodes that it has, that it had when
// it left, and that its holders were given.

// claims are the loop's record of which devices have a claim on which nodes.
type claims struct {
	of    map[string][]string        // device -> names and numbers of nodes, sorted
	on    map[string]map[string]bool // name or number of a node -> devices
	dirty map[string]bool            // devices that must be judged again
}

func newClaims() claims {
	return claims{of: map[string][]string{}, on: map[string]map[string]bool{}, dirty: map[string]bool{}}
}

// conflict is the certainty that another device has a claim on a device's nodes.
type conflict uint8

const (
	noConflict conflict = iota
	possible            // another device has a claim, and its holders are not known yet
	certain             // another device has a claim, and is held
)

// nodesOf returns the names and numbers of the nodes of a device.
func nodesOf(d *Device) []string { return slices.Concat(d.Nodes, d.NodeNumbers) }

// holdings returns the holdings of the device with this id, by the newest answer, or by the
// record until there is an answer.
func (l *loop) holdings(id string) []Holding {
	if l.holders.held == nil {
		return l.holders.record[id]
	}
	return l.holders.held[id]
}

// givenNodes returns the names and numbers of the nodes that the holders of a device
// were given.
func (l *loop) givenNodes(id string) []string {
	return nodesGiven(l.holdings(id))
}

func nodesGiven(holdings []Holding) []string {
	var all []string
	for _, h := range holdings {
		all = append(all, h.Nodes...)
	}
	return all
}

// releasedAfter is how many times the interval between two questions a released device
// keeps its claims on nodes, against devices that were never offered: a kubelet that has
// just started does not name all holders.
const releasedAfter = 3

// reclaim brings the claims of the device with this id up to date. The devices that the
// change may concern are judged again before the next snapshot.
func (l *loop) reclaim(id string) {
	now := l.givenNodes(id)
	now = append(now, l.owed[id].nodes...)
	now = append(now, l.released[id].nodes...)
	if i, found := slices.BinarySearchFunc(l.devices, id, compareID); found {
		now = append(now, nodesOf(l.devices[i])...)
	}
	slices.Sort(now)
	now = slices.Compact(now)
	before := l.claims.of[id]
	for _, node := range before {
		maps.Copy(l.claims.dirty, l.claims.on[node])
		delete(l.claims.on[node], id)
		if len(l.claims.on[node]) == 0 {
			delete(l.claims.on, node)
		}
	}
	delete(l.claims.of, id)
	for _, node := range now {
		if l.claims.on[node] == nil {
			l.claims.on[node] = map[string]bool{}
		}
		l.claims.on[node][id] = true
		maps.Copy(l.claims.dirty, l.claims.on[node])
	}
	if len(now) > 0 {
		l.claims.of[id] = now
	}
	l.claims.dirty[id] = true
}

// owed are nodes that a device no longer has and that its holders may still open.
type owed struct {
	nodes []string  // names and numbers
	since time.Time // when the last of them was lost
}

// released are the nodes of a device whose holders the kubelet has ceased to name.
type released struct {
	given []string // names and numbers of those that the holders were given
	owed           // these, and those that the device has lost
}

// owe keeps the claim of a device on nodes that it loses, until an answer to a question
// asked from now on says that the device is free.
func (l *loop) owe(id string, nodes []string) {
	if l.cfg.Holders != nil && len(nodes) > 0 {
		all := slices.Concat(l.owed[id].nodes, nodes)
		slices.Sort(all)
		l.owed[id] = owed{slices.Compact(all), time.Now()} // once each, however often a card comes and goes
	}
	l.reclaim(id)
}

// clear ends the claim of a device on nodes that it has lost.
func (l *loop) clear(id string) {
	delete(l.owed, id)
	l.reclaim(id)
}

// judgeClaimed judges again the devices that changed claims may concern.
func (l *loop) judgeClaimed(now time.Time) {
	for len(l.claims.dirty) > 0 {
		ids := slices.Sorted(maps.Keys(l.claims.dirty))
		clear(l.claims.dirty)
		for _, id := range ids {
			c := l.cards[addressOf(id)]
			if c == nil || c.byID[id] == nil {
				continue
			}
			unprompted(c, func() { l.judge(c, c.byID[id], id, now) })
			l.watchClock(c)
		}
	}
}

// conflict reports whether another device has a claim on the nodes of d.
func (l *loop) conflict(d *Device, offered bool) conflict {
	worst := noConflict
	if l.cfg.Holders == nil {
		return worst // the holders of a device that has left are never known
	}
	for _, node := range nodesOf(d) {
		for id := range l.claims.on[node] {
			t := l.tombstones[id]
			switch {
			case id == d.ID, sameHolders(l.holdings(id), l.holdings(d.ID)):
			case len(l.holdings(id)) > 0, t != nil && t.held:
				return certain
			case l.isFree(id, offered) && !l.has(id, node) && !slices.Contains(l.owed[id].nodes, node):
			default:
				worst = possible
			}
		}
	}
	if worst == noConflict && l.holders.blind && len(d.Nodes) > 0 && len(l.holdings(d.ID)) == 0 {
		return certain // any of the unknown nodes may be this one
	}
	return worst
}

// isFree reports whether a device that the kubelet has ceased to name counts as free for
// one that was offered before: two answers agree. The recovery hold comes on top.
func (l *loop) isFree(id string, offered bool) bool {
	return offered && l.holders.heldAt.After(l.released[id].since)
}

// has reports whether the device with this id is there and has a node.
func (l *loop) has(id, node string) bool {
	i, found := slices.BinarySearchFunc(l.devices, id, compareID)
	return found && slices.Contains(nodesOf(l.devices[i]), node)
}

// sameHolders reports whether two devices are held by one container: it may open both.
func sameHolders(a, b []Holding) bool {
	return len(a) == 1 && len(b) == 1 && len(a[0].Holders) == 1 && slices.Equal(a[0].Holders, b[0].Holders)
}

// cameBackElsewhere reports whether a device that is back in its place has other nodes
// than its holders were given. While the given nodes are not known, all nodes that it had
// stand for them. before is the previous result: if it was true, it stays true as long as
// one of the given nodes is missing.
func (l *loop) cameBackElsewhere(d *Device, before bool) bool {
	nodes := l.givenNodes(d.ID)
	if len(nodes) == 0 {
		nodes = l.owed[d.ID].nodes
	}
	return replaced(nodes, nodesOf(d)) || before && lacks(nodesOf(d), nodes)
}

// nodeChanged reports whether a held device that this process has not seen leave has other
// nodes than its holders were given.
func (l *loop) nodeChanged(d *Device, offered bool) bool {
	if t := l.tombstones[d.ID]; t != nil && !t.moved {
		return false // the tombstone has a reason of its own
	}
	given, now := l.givenNodes(d.ID), nodesOf(d)
	if len(given) == 0 && !l.isFree(d.ID, offered) {
		given = l.released[d.ID].given
	}
	return replaced(given, now)
}

// replaced reports whether some of the given nodes are missing now and new ones are there.
// A region that has only lost or only gained a port is not replaced.
func replaced(given, now []string) bool {
	return len(given) > 0 && lacks(given, now) && lacks(now, given)
}

// lacks reports whether one of nodes is missing in there.
func lacks(there, nodes []string) bool {
	return slices.ContainsFunc(nodes, func(node string) bool { return !slices.Contains(there, node) })
}

// judgeNodes returns the conditions of the nodes of a device that has been read.
func (l *loop) judgeNodes(p *port, d *Device) []Condition {
	var all []Condition
	if l.nodeChanged(d, p.health.offered) {
		p.health.offered = true // by an earlier process: good news waits
		all = append(all, Condition{Reason: ReasonNodeChanged, Health: Unhealthy})
	}
	switch now := l.conflict(d, p.health.offered); {
	case now != noConflict:
		p.conflict = max(p.conflict, now)
		// A kubelet that has just started may not name all holders yet: RecoveryHold
		// applies even to a device that was never offered.
		p.health.offered = p.health.offered || now == certain
		all = append(all, Condition{Reason: ReasonNodeInUse, Health: Unhealthy})
	case p.conflict == possible:
		p.health.forgive(ReasonNodeInUse) // the other device was free all along
		fallthrough
	default:
		p.conflict = noConflict
	}
	l.awaitRelease(d.ID, len(all) > 0)
	return all
}

// awaitRelease repeats the question for holders while a device waits for containers to
// end.
func (l *loop) awaitRelease(id string, waits bool) {
	if !waits {
		delete(l.waiting, id)
		return
	}
	l.waiting[id] = true
	if l.holders.next.IsZero() && !l.holders.asking && l.cfg.Holders != nil {
		l.holders.next = time.Now().Add(l.cfg.HoldersInterval)
	}
}

// takeHoldings takes over the holdings of a new answer, and updates the claims on nodes.
func (l *loop) takeHoldings(a answer) {
	before, held := l.holders.held, a.held
	if before == nil {
		before = l.holders.record
	}
	if held == nil {
		held = map[string][]Holding{}
	}
	l.holders.held, l.holders.heldAt, l.holders.record = held, a.asked, nil
	same := func(a, b Holding) bool { return slices.Equal(a.Nodes, b.Nodes) }
	for id, was := range before {
		if !slices.EqualFunc(was, held[id], same) {
			l.reclaim(id)
		}
		if len(held[id]) == 0 {
			given := nodesGiven(was)
			l.released[id] = released{given, owed{slices.Concat(given, l.owed[id].nodes), a.asked}}
			l.reclaim(id)
			l.askOn(a)
		}
	}
	for id, r := range l.released {
		if len(held[id]) > 0 || a.asked.Sub(r.since) >= releasedAfter*l.cfg.HoldersInterval {
			delete(l.released, id)
		}
		l.reclaim(id) // this answer may have been the second one
	}
	for id, is := range held {
		if len(before[id]) == 0 && len(is) > 0 {
			l.reclaim(id)
		}
	}
	for id, o := range l.owed {
		switch {
		case len(held[id]) > 0:
		case o.since.After(a.asked):
			l.holders.again = true
		default:
			l.clear(id)
		}
	}
	l.lookForBlind()
}

// expireNodes ends the claims that no answer has confirmed within the grace time.
func (l *loop) expireNodes(now time.Time) {
	for id, o := range l.owed {
		if !now.Before(l.expiry(o.since)) {
			l.clear(id)
		}
	}
	for id, r := range l.released {
		if !now.Before(l.expiry(r.since)) {
			delete(l.released, id)
			l.reclaim(id)
		}
	}
	if record := l.holders.record; len(record) > 0 && !now.Before(l.expiry(l.began)) {
		l.holders.record = nil
		for id := range record {
			l.reclaim(id)
		}
	}
}

// lookForBlind updates blind: whether it is unknown, for some held device, which nodes its
// holders were given.
func (l *loop) lookForBlind() {
	var ids []string
	var why error
	for _, id := range slices.Sorted(maps.Keys(l.holders.held)) {
		for _, h := range l.holders.held[id] {
			if h.NodesErr != nil {
				ids, why = append(ids, id), h.NodesErr
			}
		}
	}
	blind := len(ids) > 0
	if blind == l.holders.blind {
		return
	}
	l.holders.blind = blind
	for _, d := range l.devices {
		l.claims.dirty[d.ID] = true
	}
	if blind {
		l.log.Warn("nodes of held devices not known, free devices are withheld", event.NodesUnknown, event.Devices(slices.Compact(ids)), event.Err(why))
	} else {
		l.log.Info("nodes of held devices known", event.NodesKnown)
	}
}
