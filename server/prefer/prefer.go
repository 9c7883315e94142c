package prefer

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Policy selects the best choice.
type Policy string

// The policies, explained in the package's documentation.
const (
	Packed Policy = "packed" // close together, so that other cards stay completely free
	Spread Policy = "spread" // over as many cards as possible
)

// Policies returns all policies.
func Policies() []string { return []string{string(Packed), string(Spread)} }

// Unit is one allocatable device of a resource.
type Unit struct {
	ID       string
	Card     string // shared by the units of a card, e.g. 0000:3b:00.0; "": a card of its own
	NUMANode int    // -1: none
	Degraded bool
}

// Choose returns the sorted ids of the best choice of size units, or of fewer if fewer are available.
// must has the ids that the choice has to include. listed has each unit of the resource once, also
// those that are not available. Choose does not modify its arguments.
//
// It returns an error if size is negative or below the number of musts.
func Choose(listed []Unit, available, must []string, size int, policy Policy) ([]string, error) {
	if size < 0 {
		return nil, fmt.Errorf("allocation size: found %d, want 0 or more", size)
	}
	isMust := make(map[string]bool, len(available)+len(must)) // false: is available
	for _, id := range available {
		isMust[id] = false
	}
	for _, id := range must {
		isMust[id] = true
	}
	ids := slices.Compact(slices.Sorted(slices.Values(must)))
	if len(ids) > size {
		return nil, fmt.Errorf("devices that must be included: found %d, want at most %d, the allocation size", len(ids), size)
	}

	cards := map[place]*card{}
	var free []Unit // available units and musts; the index of a unit is its rank
	for _, u := range listed {
		at := u.place()
		if cards[at] == nil {
			cards[at] = &card{}
		}
		if _, ok := isMust[u.ID]; ok {
			free = append(free, u)
		} else {
			cards[at].others++
		}
	}
	slices.SortFunc(free, func(a, b Unit) int { return strings.Compare(a.ID, b.ID) })
	for rank, u := range free {
		c := cards[u.place()]
		c.units = append(c.units, candidate{rank, isMust[u.ID], u.Degraded})
	}
	nodes := map[int][]*card{}
	for at, c := range cards {
		nodes[at.node] = append(nodes[at.node], c)
	}

	room := size - len(ids)
	all := plan{{units: new(big.Int)}}
	for _, cards := range nodes {
		all = join(all, policy.node(cards, len(free), room), room)
	}
	chosen := all[len(all)-1].units
	for rank, u := range free {
		if chosen.Bit(len(free)-1-rank) == 1 && !isMust[u.ID] {
			ids = append(ids, u.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// place is a card. Two units are on one card if their places are equal.
type place struct {
	node int
	card string // "": a card of its own
	unit string // id of the unit that has a card of its own
}

func (u Unit) place() place {
	if u.Card == "" {
		return place{node: u.NUMANode, unit: u.ID}
	}
	return place{node: u.NUMANode, card: u.Card}
}

// card has the units of one card.
type card struct {
	units  []candidate // available or must
	others int         // number of units that are listed, but not available
}

type candidate struct {
	rank           int
	must, degraded bool
}

// plan has the best choices from some cards: element n has all musts and n further units.
type plan []choice

type choice struct {
	cost cost
	// units has the bit (number of candidates - 1 - rank) for each unit. So of two sets of one
	// size, the larger number has the lower ids.
	units *big.Int
}

// and returns the choice of the units of c and d, which have no unit in common.
func (c choice) and(d choice) choice {
	return choice{c.cost.plus(d.cost), new(big.Int).Or(c.units, d.units)}
}

// cost has the counts that the package documentation defines, in the same order. The cost of a choice is the
// sum of those of its parts.
type cost [5]int

func (c cost) plus(d cost) cost {
	for i := range c {
		c[i] += d[i]
	}
	return c
}

func (c cost) compare(d cost) int { return slices.Compare(c[:], d[:]) }

// join returns the best choices of up to room further units from two plans for different cards.
// The best choices of each plan suffice: the better of two choices of one size stays the better
// one if the same units are added to both.
func join(a, b plan, room int) plan {
	joined := make(plan, min(len(a)+len(b)-2, room)+1)
	spare := new(big.Int)
	for n := range joined {
		best := &joined[n]
		for k := max(0, n-len(a)+1); k <= min(n, len(b)-1); k++ {
			x, y := &a[n-k], &b[k]
			total := x.cost.plus(y.cost)
			if best.units == nil {
				*best = x.and(*y)
				continue
			}
			order := total.compare(best.cost)
			if order > 0 {
				continue
			}
			if spare.Or(x.units, y.units); order < 0 || spare.Cmp(best.units) > 0 {
				best.cost, best.units, spare = total, spare, best.units
			}
		}
	}
	return joined
}

// node returns the plan for the cards of one NUMA node.
func (p Policy) node(cards []*card, ranks, room int) plan {
	all := plan{{units: new(big.Int)}}
	// Cards with one unit, as in a pool, and cards without a choice share one plan, because
	// joining them one by one would take long.
	single := plan{{units: new(big.Int)}}
	var units []choice // of one unit
	for _, c := range cards {
		switch cp := p.card(c, ranks); {
		case len(cp) == 1:
			single[0] = single[0].and(cp[0])
		case len(c.units) == 1:
			units = append(units, cp[1])
		default:
			all = join(all, cp, room)
		}
	}
	slices.SortFunc(units, func(a, b choice) int { return cmp.Or(a.cost.compare(b.cost), b.units.Cmp(a.units)) })
	for n, u := range units[:min(len(units), room)] {
		single = append(single, single[n].and(u))
	}
	all = join(all, single, room)
	nodes := 1 // index of the count nodes in the cost
	if p == Spread {
		nodes = 3
	}
	for n := range all {
		all[n].cost[nodes] = all[n].units.Sign()
	}
	return all
}

// card returns the plan for one card. Of its units, musts are taken first, then healthy ones.
func (p Policy) card(c *card, ranks int) plan {
	slices.SortFunc(c.units, func(a, b candidate) int {
		return cmp.Or(count(b.must)-count(a.must), count(a.degraded)-count(b.degraded), cmp.Compare(a.rank, b.rank))
	})
	var choices plan
	degraded, units := 0, new(big.Int)
	for n := range len(c.units) + 1 { // n are taken
		if n > 0 {
			u := c.units[n-1]
			degraded += count(u.degraded)
			units = new(big.Int).SetBit(units, ranks-1-u.rank, 1)
		}
		if n < len(c.units) && c.units[n].must {
			continue
		}
		broken := count(c.others == 0 && 0 < n && n < len(c.units))
		all, rest := len(c.units), len(c.units)-n
		total := cost{min(n, 1), 0, degraded, broken, pairs(all) - pairs(rest)}
		if p == Spread {
			total = cost{pairs(n), degraded, n * c.others, 0, broken}
		}
		choices = append(choices, choice{total, units})
	}
	return choices
}

// pairs returns the number of pairs among n.
func pairs(n int) int { return n * (n - 1) / 2 }

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
