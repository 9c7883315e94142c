package prefer

import (
	"cmp"
	"fmt"
	"slices"
)

// Device is one allocatable device of a resource.
type Device struct {
	ID       string
	Card     string // the same for all of a card's devices, e.g. 0000:3b:00.0; "" means a card of its own
	NUMANode int    // -1: none
	Degraded bool
}

// Choose returns the sorted ids of size devices, or fewer if not enough devices are available. The result always
// includes the ids in must. listed contains each of the resource's devices once, including unavailable ones. Choose
// doesn't modify its arguments.
//
// If spread is true, the devices are spread over as many cards as possible; otherwise, they are packed onto as few as
// possible.
//
// Choose returns an error if size is negative, or smaller than the number of ids in must.
func Choose(listed []Device, available, must []string, size int, spread bool) ([]string, error) {
	if size < 0 {
		return nil, fmt.Errorf("allocation size: found %d, want 0 or more", size)
	}
	ids := slices.Compact(slices.Sorted(slices.Values(must)))
	if len(ids) > size {
		return nil, fmt.Errorf("devices that must be included: found %d, want at most %d, the allocation size", len(ids), size)
	}
	b := newBoard(listed, available, must)
	for len(ids) < size && len(b.cards) > 0 {
		need, better, takes := size-len(ids), comparePacked, size-len(ids)
		if spread {
			better, takes = compareSpread, 1
		}
		best := slices.MinFunc(b.cards, func(c, d *card) int { return better(c, d, need) })
		ids = append(ids, b.take(best, takes)...)
	}
	slices.Sort(ids)
	return ids, nil
}

// board contains the cards that still have free devices.
type board struct{ cards []*card }

type numaNode struct {
	chosen bool
	free   int
}

type card struct {
	node   *numaNode
	free   []Device // healthy ones first
	chosen int
	held   int // listed devices that are neither available nor chosen
}

func newBoard(listed []Device, available, must []string) *board {
	free, chosen := make(map[string]bool, len(available)), make(map[string]bool, len(must))
	for _, id := range available {
		free[id] = true
	}
	for _, id := range must {
		chosen[id] = true
	}
	type place struct {
		node int
		card string // "" means a card of its own
		unit string // id of the device that has a card of its own
	}
	b := &board{}
	nodes, cards := map[int]*numaNode{}, map[place]*card{}
	for _, u := range listed {
		at := place{node: u.NUMANode, card: u.Card}
		if u.Card == "" {
			at.unit = u.ID
		}
		if nodes[u.NUMANode] == nil {
			nodes[u.NUMANode] = &numaNode{}
		}
		c := cards[at]
		if c == nil {
			c = &card{node: nodes[u.NUMANode]}
			cards[at] = c
		}
		switch {
		case chosen[u.ID]:
			c.chosen++
			c.node.chosen = true
		case free[u.ID]:
			c.free = append(c.free, u)
			c.node.free++
		default:
			c.held++
		}
	}
	for _, c := range cards {
		if len(c.free) > 0 {
			slices.SortFunc(c.free, func(a, b Device) int {
				return cmp.Or(count(a.Degraded)-count(b.Degraded), cmp.Compare(a.ID, b.ID))
			})
			b.cards = append(b.cards, c)
		}
	}
	return b
}

// take chooses up to n of a card's devices.
func (b *board) take(c *card, n int) (ids []string) {
	n = min(n, len(c.free))
	for _, u := range c.free[:n] {
		ids = append(ids, u.ID)
	}
	c.free, c.chosen, c.node.chosen, c.node.free = c.free[n:], c.chosen+n, true, c.node.free-n
	if len(c.free) == 0 {
		b.cards = slices.DeleteFunc(b.cards, func(d *card) bool { return d == c })
	}
	return ids
}

// comparePacked returns a negative number if c is a better choice than d for a container that still needs this many
// devices.
func comparePacked(c, d *card, need int) int {
	takes := func(c *card) int { return min(need, len(c.free)) }
	degraded := func(c *card) (n int) {
		for _, u := range c.free[:takes(c)] {
			n += count(u.Degraded)
		}
		return n
	}
	breaks := func(c *card) int { return count(c.held == 0 && c.chosen == 0 && takes(c) < len(c.free)) }
	return cmp.Or(
		count(c.chosen == 0)-count(d.chosen == 0),
		takes(d)-takes(c),
		c.node.distance(need)-d.node.distance(need),
		degraded(c)-degraded(d),
		breaks(c)-breaks(d),
		len(c.free)-len(d.free),
		cmp.Compare(c.free[0].ID, d.free[0].ID),
	)
}

// compareSpread returns a negative number if c is a better choice than d for a container that still needs this many
// devices.
func compareSpread(c, d *card, need int) int {
	breaks := func(c *card) int { return count(c.held == 0 && c.chosen == 0 && len(c.free) > 1) }
	return cmp.Or(
		c.chosen-d.chosen,
		count(c.free[0].Degraded)-count(d.free[0].Degraded),
		c.held-d.held,
		c.node.distance(need)-d.node.distance(need),
		breaks(c)-breaks(d),
		cmp.Compare(c.free[0].ID, d.free[0].ID),
	)
}

// distance is 0 for a NUMA node that the container already uses, 1 for another node with enough free devices for the
// rest, and 2 otherwise.
func (n *numaNode) distance(need int) int {
	return count(!n.chosen) + count(!n.chosen && n.free < need)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
