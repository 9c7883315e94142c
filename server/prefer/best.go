package prefer

import "slices"

// best returns the ranks of the best choice of size candidates, in order. There
// must be as many.
//
// It is a knapsack, filled shelf by shelf: for each number of units up to size
// it remembers the best choice among the shelves so far. That is enough because
// the better of two beginnings of one size stays the better one, by cost and by
// ids, whatever is added to both: costs add up, and what is added is disjoint.
func best(units []candidate, size int, policy Policy) []int {
	without := newTable(size, len(units))
	without[0].known = true
	with := newTable(size, len(units))
	spare := newSet(len(units))
	for _, node := range shelves(units, policy) {
		// The node is paid for first. A choice that then takes nothing of it loses
		// against the same one that did not pay.
		for n := range without {
			with[n].copy(&without[n])
			with[n].cost = with[n].cost.plus(policy.node())
		}
		for _, s := range node {
			spare = with.fill(s, spare)
		}
		for n := range without {
			if with[n].better(&without[n]) {
				without[n], with[n] = with[n], without[n]
			}
		}
	}
	return without[size].units.ranks()
}

// choice is the best choice known of some number of units.
type choice struct {
	known bool // that there is one
	cost  cost
	units set
}

func (c *choice) copy(from *choice) {
	c.known, c.cost = from.known, from.cost
	copy(c.units, from.units)
}

func (c *choice) better(than *choice) bool {
	if !c.known || !than.known {
		return c.known
	}
	if order := c.cost.compare(than.cost); order != 0 {
		return order < 0
	}
	return c.units.before(than.units)
}

// table holds the best choice of n units at n.
type table []choice

func newTable(size, units int) table {
	t := make(table, size+1)
	for n := range t {
		t[n].units = newSet(units)
	}
	return t
}

// fill lets every choice take from one more shelf. The spare set is written to;
// the one that is returned is to be used in its place.
func (t table) fill(s shelf, spare set) set {
	// From the largest down: what is built on has not taken from this shelf yet.
	for n := len(t) - 1; n > 0; n-- {
		for taking := 1; taking <= min(n, len(s.ranks)); taking++ {
			from, to := &t[n-taking], &t[n]
			if !from.known {
				continue
			}
			order := -1
			if to.known {
				order = compareSum(&from.cost, &s.costs[taking], &to.cost)
			}
			if order > 0 {
				continue // most of them; so the set is made only now
			}
			copy(spare, from.units)
			for _, rank := range s.ranks[:taking] {
				spare.add(rank)
			}
			if order == 0 && !spare.before(to.units) {
				continue
			}
			to.known, to.cost = true, from.cost.plus(s.costs[taking])
			to.units, spare = spare, to.units
		}
	}
	return spare
}

// set is a set of ranks, rank 0 in the highest bit of the first word: of two sets
// of one size the larger one has the lower ranks.
type set []uint64

func newSet(units int) set { return make(set, (units+63)/64) }

func (s set) add(rank int) { s[rank/64] |= 1 << (63 - rank%64) }

// before says whether the ranks of s are lower than those of o, in order.
func (s set) before(o set) bool { return slices.Compare(s, o) > 0 }

// ranks lists the set, the lowest first.
func (s set) ranks() []int {
	var ranks []int
	for rank := range 64 * len(s) {
		if s[rank/64]&(1<<(63-rank%64)) != 0 {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
