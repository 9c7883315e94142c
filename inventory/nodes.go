package inventory

import (
	"maps"
	"slices"
	"time"
)

// A container that was given a device node may open the number of the node until the container
// ends. When the container is restarted, it may be given the node that has the same name at that
// time. After a card has left, drivers give its names and numbers to the next card. So a device is
// offered only while its nodes are kept for no other device.
//
// Three sets of names and numbers are kept for a device: those of the nodes that it has now, those of the nodes that it
// had when it left, and those of the nodes that its holders were given, or will be given when they are started again.

// lost contains the nodes that a device no longer has and that its holders may still open.
type lost struct {
	nodes []string  // names and numbers
	since time.Time // when the device lost the newest of them
}

// nodesOf returns the names and numbers of the nodes of a device, without those that it shares.
func nodesOf(d *Device) []string { return slices.Concat(d.Nodes, d.NodeNumbers) }

func nodesGiven(holdings []Holding) []string {
	var all []string
	for _, h := range holdings {
		all = append(all, h.Nodes...)
	}
	return all
}

// mayBeGiven reports whether a container may have been given the nodes of u's device, which was
// present in the entry. A device with a guessed id is not offered if the reserved device of this id has
// left, and a container that restarts gets none of its nodes.
func (e *entry) mayBeGiven(u *unit) bool {
	return e.reservation == nil || e.reservation.renamed || !u.guessed(u.device)
}

// guessed reports whether the id of d, a device of the unit, is guessed: the id of a port follows
// from its number, and the number of d is not known.
func (u *unit) guessed(d *Device) bool { return u.last.ID == "" && d.PortID < 0 }

// lose keeps nodes that the device had and no longer has. They stay kept until the answer to a later question shows no
// holder of the device.
func (e *entry) lose(nodes []string, now time.Time) {
	if len(nodes) > 0 {
		all := slices.Concat(e.lost.nodes, nodes)
		slices.Sort(all)
		e.lost = lost{slices.Compact(all), now} // without duplicates, which a flapping card would add
	}
}

// keepNodes updates the nodes that are kept for a device, and marks all devices whose conflicts
// may have changed.
func (n *node) keepNodes(e *entry) {
	nodes := slices.Concat(nodesGiven(n.holders.of(e.id)), e.lost.nodes)
	for _, h := range n.holders.of(e.id) {
		nodes = append(nodes, h.Later...)
	}
	if e.device != nil {
		nodes = append(nodes, nodesOf(e.device)...)
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	concerned := map[string]bool{e.id: true}
	for _, name := range e.nodes {
		maps.Copy(concerned, n.kept[name])
		delete(n.kept[name], e.id)
		if len(n.kept[name]) == 0 {
			delete(n.kept, name)
		}
	}
	for _, name := range nodes {
		if n.kept[name] == nil {
			n.kept[name] = map[string]bool{}
		}
		n.kept[name][e.id] = true
		maps.Copy(concerned, n.kept[name])
	}
	e.nodes = nodes
	for _, id := range slices.Sorted(maps.Keys(concerned)) {
		n.mark(id, time.Time{})
	}
}

// conflicts reports whether a node of d, the present device of the entry, is kept for another device.
func (n *node) conflicts(e *entry, d *Device) bool {
	if !n.asks {
		return false // without [Config.Holders], holders are never known
	}
	mine := n.holders.of(e.id)
	for _, name := range nodesOf(d) {
		for id := range n.kept[name] {
			if id != e.id && !sameHolders(n.holders.of(id), mine) {
				return true
			}
		}
	}
	// The unknown nodes of a held device may be those of d.
	return len(d.Nodes) > 0 && len(mine) == 0 && n.mayBeElsewhere(e)
}

// unknownNodes returns the sorted ids of the devices in an answer whose holders have nodes that are not known.
func unknownNodes(answer map[string][]Holding) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(answer)) {
		if slices.ContainsFunc(answer[id], func(h Holding) bool { return h.NodesErr != nil }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// mayBeElsewhere reports whether the holder of another device may have nodes of the entry's present device, because it
// is not known which nodes the holder was given. They are probably the nodes that the other device has now. But the
// other device may have been a whole card that includes the present device, or a part of it. If the card of the other
// device is not on the node, its nodes may belong to any card now.
func (n *node) mayBeElsewhere(e *entry) bool {
	return slices.ContainsFunc(n.holders.unknown, func(id string) bool {
		card := n.cards[addressOf(id)]
		switch {
		case id == e.id:
			return false // the present device itself, which is withheld because it is held
		case card == nil || len(card.units) == 0:
			return n.complete && len(n.entry(id).lost.nodes) == 0 // a device's lost nodes are kept anyway
		case e.unit.card != addressOf(id):
			return false
		}
		return id == cardOf(id) || n.entry(id).unit == nil
	})
}

// markUnknown marks the devices to which [node.mayBeElsewhere] applies.
func (n *node) markUnknown() {
	if len(n.holders.unknown) > 0 {
		n.markAll()
	}
}

// nodeChanged reports whether a held device that has not left since this process began has
// other nodes than its holders were given.
func (n *node) nodeChanged(e *entry, d *Device) bool {
	if e.reservation != nil && !e.reservation.renamed {
		return false // the reason of the reservation is used instead
	}
	return replacedNodes(nodesGiven(n.holders.of(e.id)), nodesOf(d))
}

// hasReplacedNodes reports whether a device that has returned has other nodes than its
// holders were given. If the given nodes are not known, it uses all nodes that the device had. Once
// true, the result stays true as long as one of the given nodes is missing.
func (e *entry) hasReplacedNodes(n *node, now []string) bool {
	nodes := nodesGiven(n.holders.of(e.id))
	if len(nodes) == 0 {
		nodes = e.lost.nodes
	}
	return replacedNodes(nodes, now) || e.reservation.moved && lacks(now, nodes)
}

// replacedNodes reports whether some of the given nodes are missing and there are new nodes. The nodes of a region that
// has only lost or only gained a port are not replaced.
func replacedNodes(given, now []string) bool {
	return len(given) > 0 && lacks(given, now) && lacks(now, given)
}

// lacks reports whether one of nodes is missing in present.
func lacks(present, nodes []string) bool {
	return slices.ContainsFunc(nodes, func(node string) bool { return !slices.Contains(present, node) })
}

// sameHolders reports whether two devices are held by the same single container. Such a container
// may open the nodes of both.
func sameHolders(a, b []Holding) bool {
	same := func(a, b []string) bool { return len(a) == 1 && slices.Equal(a, b) }
	return len(a) == 1 && len(b) == 1 && (same(a[0].Holders, b[0].Holders) || same(a[0].Containers, b[0].Containers))
}
