package inventory

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// A container that was given a device node may open that device number for as long as it runs. If it is restarted, it
// may be given whichever node has the same name by then. Once a card has left, drivers reuse its names and numbers for
// the next card. So a device is offered only while its nodes aren't kept for any other device.
//
// Three sets of names and numbers are kept for a device: the nodes it has now, the nodes it had when it left, and the
// nodes that its holders were given, or will be given if they are restarted.

// functionPrefix is the prefix of the names that [FunctionNode] returns. It can't occur in the name of a device node.
const functionPrefix = "//"

// FunctionNode returns a name that stands for all device nodes of a PCI function. [Holding.Nodes] contains it if a
// container can open nodes of that function, but we don't know which. The name conflicts with all nodes of the
// function's devices.
func FunctionNode(address string) string { return functionPrefix + address }

func isFunction(name string) bool { return strings.HasPrefix(name, functionPrefix) }

// lost holds the nodes that a device no longer has but that its holders may still open.
type lost struct {
	nodes []string  // names and numbers
	since time.Time // when the device lost the most recent of them
}

// nodesOf returns the names and numbers of a device's nodes, excluding shared ones.
func nodesOf(d *Device) []string { return slices.Concat(d.Nodes, d.NodeNumbers) }

func nodesGiven(holdings []Holding) []string {
	var all []string
	for _, h := range holdings {
		all = append(all, h.Nodes...)
	}
	return all
}

// mayBeGiven reports whether a container may have been given the nodes of u's device. u is the entry's unit, or was
// until just now. mayBeGiven returns false only if the device's id is a guess and the device reserved under that id has
// left: such a device isn't offered, and a restarted container doesn't get any of its nodes.
func (e *entry) mayBeGiven(u *unit) bool {
	return e.reservation == nil || e.reservation.renamed || !u.guessed(u.device)
}

// guessed reports whether the id of d, the unit's device, is a guess. A port's id is derived from its number, so it is
// a guess if that number isn't known.
func (u *unit) guessed(d *Device) bool { return u.last.ID == "" && d.PortID < 0 }

// lose records that the device has just lost the given nodes. They are kept until a later query finds no holder for the
// device.
func (e *entry) lose(nodes []string, now time.Time) {
	if len(nodes) > 0 {
		all := slices.Concat(e.lost.nodes, nodes)
		slices.Sort(all)
		e.lost = lost{slices.Compact(all), now} // deduplicated, because a flapping card would keep adding them
	}
}

// keepNodes updates the nodes that are kept for a device, and marks all devices whose conflicts may have changed.
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
	for port := range maxPorts { // because of heldInAnotherMode
		if id := deviceID(addressOf(e.id), port); n.entries[id] != nil {
			concerned[id] = true
		}
	}
	for _, name := range nodes {
		if n.kept[name] == nil {
			n.kept[name] = map[string]bool{}
		}
		n.kept[name][e.id] = true
		maps.Copy(concerned, n.kept[name])
	}
	if slices.ContainsFunc(slices.Concat(nodes, e.nodes), isFunction) {
		n.markAll() // kept doesn't tell which devices belong to the function
	}
	e.nodes = nodes
	for _, id := range slices.Sorted(maps.Keys(concerned)) {
		n.mark(id, time.Time{})
	}
}

// conflicts reports whether any node of d, the entry's present device, is kept for another device, or whether d's card
// is held in another mode.
func (n *node) conflicts(e *entry, d *Device) bool {
	if !n.asks {
		return false // without [Config.Holders], no holders are ever known
	}
	mine := n.holders.of(e.id)
	names := append(nodesOf(d), FunctionNode(d.PCIAddress))
	for _, member := range d.Members {
		names = append(names, FunctionNode(member))
	}
	for _, name := range names {
		for id := range n.kept[name] {
			if id != e.id && !sameHolders(n.holders.of(id), mine) {
				return true
			}
		}
	}
	// If it isn't known which nodes the holder of another device has, they may include d's nodes.
	return n.heldInAnotherMode(e) || len(d.Nodes) > 0 && len(mine) == 0 && n.mayBeElsewhere(e)
}

// maxPorts is the maximum number of ports on a card.
const maxPorts = 4

// heldInAnotherMode reports whether a container still holds the entry's unit in the form of another mode: one of the
// ports that make up the unit, or the whole card of which the unit is a port. The held device usually has nodes in
// common with the unit, but not if the card has been pulled and plugged in again.
func (n *node) heldInAnotherMode(e *entry) bool {
	ours := func(h Holding) bool { return !h.Foreign && !h.Perhaps }
	if e.unit.last.Whole {
		for port := 1; port < maxPorts; port++ {
			if slices.ContainsFunc(n.holders.of(deviceID(e.unit.card, port)), ours) {
				return true
			}
		}
		return false
	}
	if cardOf(e.id) == e.id {
		return false // it has the card's id, so it is withheld under that id
	}
	return slices.ContainsFunc(n.holders.of(cardOf(e.id)), func(h Holding) bool {
		return ours(h) && !h.OtherAPI && severalNodes(h) && (len(h.Containers) <= 1 || h.As != n.nameOf(cardOf(e.id)))
	})
}

// severalNodes reports whether h contains the numbers of several device nodes. Even the holding of a port may contain
// several, although a port has only one node: its containers may have been given different nodes, and a claim's nodes
// may have changed.
func severalNodes(h Holding) bool {
	numbers := 0
	for _, node := range h.Nodes {
		if strings.Contains(node, ":") {
			numbers++
		}
	}
	return numbers > 1
}

// nameOf returns the name that the policy gives to the present device with this id, or "" if no device is present or it
// gets no name.
func (n *node) nameOf(id string) string {
	e := n.entries[id]
	if e == nil || e.unit == nil || n.policy.Name == nil {
		return ""
	}
	name, _ := n.policy.Name(e.unit.describe())
	return name
}

// unknownNodes returns the sorted ids of the devices in answer whose holders' nodes aren't known.
func unknownNodes(answer map[string][]Holding) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(answer)) {
		if slices.ContainsFunc(answer[id], func(h Holding) bool { return h.NodesErr != nil }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// mayBeElsewhere reports whether another device's holder may have nodes of the entry's present device, because it isn't
// known which nodes that holder was given. Most likely, they are the other device's current nodes. But the other device
// may have been a whole card that includes the present device, or only a part of the present device. And if the other
// device's card isn't on the node, its nodes may now belong to any card.
func (n *node) mayBeElsewhere(e *entry) bool {
	return slices.ContainsFunc(n.holders.unknown, func(id string) bool {
		card := n.cards[addressOf(id)]
		switch {
		case id == e.id:
			return false // the present device itself; it is withheld because it is held
		case card == nil || len(card.units) == 0:
			return n.complete && len(n.entry(id).lost.nodes) == 0 // if it has lost nodes, those are kept anyway
		case e.unit.card != addressOf(id):
			return false
		}
		return id == cardOf(id) || n.entry(id).unit == nil
	})
}

// markUnknown marks all devices if some holders' nodes aren't known, because the results of [node.mayBeElsewhere] may
// have changed.
func (n *node) markUnknown() {
	if len(n.holders.unknown) > 0 {
		n.markAll()
	}
}

// nodeChanged reports whether a held device's nodes differ from those given to its holders, even though the device
// hasn't left since this process started.
func (n *node) nodeChanged(e *entry, d *Device) bool {
	if e.reservation != nil && !e.reservation.renamed {
		return false // the reservation's own reason applies instead
	}
	return replacedNodes(nodesGiven(n.holders.of(e.id)), nodesOf(d))
}

// hasReplacedNodes reports whether a device has come back with nodes other than those its holders were given. If the
// given nodes aren't known, all nodes that the device has lost are considered instead. Once the result is true, it
// stays true for as long as any of these nodes is missing.
func (e *entry) hasReplacedNodes(n *node, now []string) bool {
	nodes := nodesGiven(n.holders.of(e.id))
	if len(nodes) == 0 {
		nodes = e.lost.nodes
	}
	return replacedNodes(nodes, now) || e.reservation.moved && lacks(now, nodes)
}

// replacedNodes reports whether some of the given nodes are gone and there are others in their place. If a region has
// only lost or only gained a port, its nodes don't count as replaced. The same applies if it isn't known which nodes of
// a function were given.
func replacedNodes(given, now []string) bool {
	return len(given) > 0 && !slices.ContainsFunc(given, isFunction) && lacks(given, now) && lacks(now, given)
}

// lacks reports whether any node in nodes is missing from present.
func lacks(present, nodes []string) bool {
	return slices.ContainsFunc(nodes, func(node string) bool { return !slices.Contains(present, node) })
}

// sameHolders reports whether a single container holds both devices, and so may open the nodes of either.
func sameHolders(a, b []Holding) bool {
	same := func(a, b []string) bool { return len(a) == 1 && slices.Equal(a, b) }
	return len(a) == 1 && len(b) == 1 && (same(a[0].Holders, b[0].Holders) || same(a[0].Containers, b[0].Containers))
}
