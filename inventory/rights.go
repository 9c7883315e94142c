package inventory

import (
	"maps"
	"slices"
	"time"
)

// A container that was given a device node may open the node's number until the
// container ends. When it is restarted, it may get the node that has the same name by
// then. After a card has left, drivers give its names and numbers to the next card. So a
// device is offered only while no other device has a right to its nodes.
//
// A device has a right to the names and numbers of the nodes that it has, that it had when
// it left, and that its holders were given.

// conflict reports whether another device has a right to a device's nodes, and how certainly.
type conflict uint8

const (
	noConflict conflict = iota
	possible            // another device has a right, and its holders are not known yet
	certain             // another device has a right, and is held
)

// lost has nodes that a device no longer has and that its holders may still open.
type lost struct {
	nodes []string  // names and numbers
	since time.Time // when the newest of them was lost
}

// released has the nodes of a device whose holders the newest answer no longer names.
type released struct {
	given []string  // names and numbers of the nodes that the holders were given
	nodes []string  // these, and those that the device has lost
	since time.Time // the first answer that does not name the holders was asked for
}

// releasedAfter is how long a released device keeps its right to nodes, against devices that
// were never offered, as a multiple of the interval between two questions. A kubelet that has
// just started does not name all holders.
const releasedAfter = 3

// nodesOf returns the names and numbers of the nodes of a device.
func nodesOf(d *Device) []string { return slices.Concat(d.Nodes, d.NodeNumbers) }

func nodesGiven(holdings []Holding) []string {
	var all []string
	for _, h := range holdings {
		all = append(all, h.Nodes...)
	}
	return all
}

// mayBeGiven reports whether a container may have been given the nodes of u's device, which was
// present in the slot. A port that is in the place of a claimed device by guess is not offered,
// and a container that restarts gets none of its nodes.
func (s *slot) mayBeGiven(u *unit) bool {
	return s.claim == nil || s.claim.renamed || !u.guessed(u.device)
}

// guessed reports whether d, a device of the unit, has its id by guess: the id of a port follows
// from its number, and d has none.
func (u *unit) guessed(d *Device) bool { return u.last.ID == "" && d.PortID < 0 }

// lose keeps the right of a device to nodes that it loses, until the answer to a later question
// has no holder of it.
func (s *slot) lose(nodes []string, now time.Time) {
	if len(nodes) > 0 {
		all := slices.Concat(s.lost.nodes, nodes)
		slices.Sort(all)
		s.lost = lost{slices.Compact(all), now} // without duplicates, which a flapping card would add
	}
}

// claimNodes updates the rights of a device to nodes, and marks all devices whose conflicts may
// have changed by that.
func (n *node) claimNodes(s *slot) {
	nodes := slices.Concat(nodesGiven(n.holders.of(s.id)), s.lost.nodes, s.released.nodes)
	if s.device != nil {
		nodes = append(nodes, nodesOf(s.device)...)
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	concerned := map[string]bool{s.id: true}
	for _, node := range s.nodes {
		maps.Copy(concerned, n.rights[node])
		delete(n.rights[node], s.id)
		if len(n.rights[node]) == 0 {
			delete(n.rights, node)
		}
	}
	for _, node := range nodes {
		if n.rights[node] == nil {
			n.rights[node] = map[string]bool{}
		}
		n.rights[node][s.id] = true
		maps.Copy(concerned, n.rights[node])
	}
	s.nodes = nodes
	for _, id := range slices.Sorted(maps.Keys(concerned)) {
		n.mark(id, time.Time{})
	}
}

// contend returns the conditions of d, which is present in the slot, that come from rights to
// its nodes.
func (n *node) contend(s *slot, d *Device) []Condition {
	var all []Condition
	if n.nodeChanged(s, d) {
		s.health.offered = true // by an earlier process: the recovery hold applies
		all = append(all, Condition{Reason: ReasonNodeChanged, Health: Unhealthy})
	}
	switch now := n.conflict(s, d); {
	case now != noConflict:
		s.conflict = max(s.conflict, now)
		// A kubelet that has just started may not name all holders yet: the recovery hold
		// applies even to a device that was never offered.
		s.health.offered = s.health.offered || now == certain
		all = append(all, Condition{Reason: ReasonNodeInUse, Health: Unhealthy})
	default:
		if s.conflict == possible {
			s.health.clear(ReasonNodeInUse) // the other device had no holder
		}
		s.conflict = noConflict
	}
	s.contends = len(all) > 0
	return all
}

// conflict reports whether another device has a right to the nodes of d.
func (n *node) conflict(s *slot, d *Device) conflict {
	worst := noConflict
	if !n.asks {
		return worst // holders are never known
	}
	mine := n.holders.of(s.id)
	for _, node := range nodesOf(d) {
		for id := range n.rights[node] {
			o := n.slots[id]
			theirs := n.holders.of(id)
			switch {
			case id == s.id, sameHolders(theirs, mine):
			case len(theirs) > 0, o.claim != nil && o.claim.held:
				return certain
			case n.isFree(o, s.health.offered) && !(o.device != nil && slices.Contains(nodesOf(o.device), node)) && !slices.Contains(o.lost.nodes, node):
			default:
				worst = possible
			}
		}
	}
	if worst == noConflict && n.holders.blind && len(d.Nodes) > 0 && len(mine) == 0 {
		return certain // any of the unknown nodes may be this one
	}
	return worst
}

// isFree reports whether a device whose holders are no longer named counts as free for another
// device: two answers agree, and offered is true, so that the other device must pass the recovery
// hold.
func (n *node) isFree(s *slot, offered bool) bool {
	return offered && n.holders.heldAt.After(s.released.since)
}

// nodeChanged reports whether a held device that has not left since this process began has
// other nodes than its holders were given.
func (n *node) nodeChanged(s *slot, d *Device) bool {
	if s.claim != nil && !s.claim.renamed {
		return false // the claim has a reason of its own
	}
	given := nodesGiven(n.holders.of(s.id))
	if len(given) == 0 && !n.isFree(s, s.health.offered) {
		given = s.released.given
	}
	return replacedNodes(given, nodesOf(d))
}

// cameBackElsewhere reports whether a device that has returned to its slot has other nodes
// than its holders were given. While the given nodes are not known, all nodes that it had
// count as given. Once true, it stays true as long as one of the given nodes is missing.
func (s *slot) cameBackElsewhere(n *node, now []string) bool {
	nodes := nodesGiven(n.holders.of(s.id))
	if len(nodes) == 0 {
		nodes = s.lost.nodes
	}
	return replacedNodes(nodes, now) || s.claim.moved && lacks(now, nodes)
}

// replacedNodes reports whether some of the given nodes are missing now and there are new ones.
// A region that has only lost or only gained a port has no replaced nodes.
func replacedNodes(given, now []string) bool {
	return len(given) > 0 && lacks(given, now) && lacks(now, given)
}

// lacks reports whether one of nodes is missing in present.
func lacks(present, nodes []string) bool {
	return slices.ContainsFunc(nodes, func(node string) bool { return !slices.Contains(present, node) })
}

// sameHolders reports whether two devices are held by the same single container, which may open
// the nodes of both.
func sameHolders(a, b []Holding) bool {
	return len(a) == 1 && len(b) == 1 && len(a[0].Holders) == 1 && slices.Equal(a[0].Holders, b[0].Holders)
}
