package prefer

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// candidate is a unit that can be chosen. Its place in the slice of all of them,
// which is sorted by id, is its rank.
type candidate struct {
	id       string
	place    place
	others   int // listed units of its card that are no candidates
	must     bool
	unlisted bool
	degraded bool
}

// place is a card: two candidates share one if their places are equal.
type place struct {
	node int
	card string // "": a card of its own
	id   string // of the unit that has a card of its own
}

// candidates returns what is available or must be included, sorted by id, each
// once, and how many of them are musts.
func candidates(listed []Unit, available, must []string) ([]candidate, int) {
	wanted := make(map[string]bool, len(available)) // value: it is a must
	for _, id := range available {
		wanted[id] = false
	}
	for _, id := range must {
		wanted[id] = true
	}
	units := make([]candidate, 0, len(wanted))
	others := map[place]int{}
	known := make(map[string]bool, len(wanted))
	for _, u := range once(listed) {
		p := u.place()
		isMust, ok := wanted[u.ID]
		if !ok {
			others[p]++
			continue
		}
		known[u.ID] = true
		units = append(units, candidate{id: u.ID, place: p, must: isMust, degraded: u.Degraded})
	}
	for i := range units {
		units[i].others = others[units[i].place]
	}
	musts := 0
	for id, isMust := range wanted {
		if isMust {
			musts++
		}
		if !known[id] {
			units = append(units, candidate{id: id, place: place{node: -1, id: id}, must: isMust, unlisted: true})
		}
	}
	slices.SortFunc(units, func(a, b candidate) int { return strings.Compare(a.id, b.id) })
	return units, musts
}

func (u Unit) place() place {
	if u.Card == "" {
		return place{node: u.NUMANode, id: u.ID}
	}
	return place{node: u.NUMANode, card: u.Card}
}

// once returns the units with every id once, whatever their order was.
func once(listed []Unit) []Unit {
	sorted := slices.SortedFunc(slices.Values(listed), func(a, b Unit) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Card, b.Card), cmp.Compare(a.NUMANode, b.NUMANode), compareBool(a.Degraded, b.Degraded))
	})
	return slices.CompactFunc(sorted, func(a, b Unit) bool { return a.ID == b.ID })
}

// compareBool has false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// shelf is candidates that are best taken in one order, whatever is taken
// elsewhere: so all that is to be found out is how many.
type shelf struct {
	ranks []int  // in the order of taking
	costs []cost // costs[n]: of the first n, without that of their node
}

// shelves sorts candidates by NUMA node, and those of a node into shelves: one for
// each card with several candidates, and one for all cards with a single one,
// which keeps the work small where most cards are such, as in a pool.
func shelves(units []candidate, policy Policy) [][]shelf {
	cards := map[place][]int{}
	for rank, u := range units {
		cards[u.place] = append(cards[u.place], rank)
	}
	singles := map[int][]int{}
	nodes := map[int][]shelf{}
	for p, ranks := range cards {
		if len(ranks) == 1 {
			singles[p.node] = append(singles[p.node], ranks[0])
			continue
		}
		nodes[p.node] = append(nodes[p.node], oneCard(units, ranks, policy))
	}
	for node, ranks := range singles {
		nodes[node] = append(nodes[node], manyCards(units, ranks, policy))
	}
	// The order of nodes and shelves decides nothing: the best choice is unique.
	return slices.Collect(maps.Values(nodes))
}

// oneCard is the shelf of a card. Of its units only must and degraded tell one
// from another.
func oneCard(units []candidate, ranks []int, policy Policy) shelf {
	slices.SortFunc(ranks, func(a, b int) int {
		return cmp.Or(compareBool(units[b].must, units[a].must), compareBool(units[a].degraded, units[b].degraded), cmp.Compare(a, b))
	})
	s := shelf{ranks: ranks, costs: make([]cost, 1, len(ranks)+1)}
	t := taken{free: len(ranks), others: units[ranks[0]].others}
	for _, rank := range ranks {
		t.add(units[rank])
		s.costs = append(s.costs, policy.card(t))
	}
	return s
}

// manyCards is the shelf of cards that have one candidate each.
func manyCards(units []candidate, ranks []int, policy Policy) shelf {
	type single struct {
		rank int
		cost cost
	}
	singles := make([]single, len(ranks))
	for i, rank := range ranks {
		t := taken{free: 1, others: units[rank].others}
		t.add(units[rank])
		singles[i] = single{rank, policy.card(t)}
	}
	slices.SortFunc(singles, func(a, b single) int { return cmp.Or(a.cost.compare(b.cost), cmp.Compare(a.rank, b.rank)) })
	s := shelf{ranks: ranks, costs: make([]cost, 1, len(ranks)+1)}
	for n, one := range singles {
		s.ranks[n] = one.rank
		s.costs = append(s.costs, s.costs[n].plus(one.cost))
	}
	return s
}
