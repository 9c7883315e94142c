package prefer

import "cmp"

// cost is what a choice costs: the counts of the package's documentation, the
// most important one first. Costs of parts add up to that of the whole. For
// missing stands minus the musts that are there, which differs from it by the
// same number for every choice.
type cost [7]int

func (c cost) plus(d cost) cost {
	for i := range c {
		c[i] += d[i]
	}
	return c
}

// compare is below 0 if c is the better one.
func (c cost) compare(d cost) int {
	for i := range c {
		if c[i] != d[i] {
			return cmp.Compare(c[i], d[i])
		}
	}
	return 0
}

// compareSum compares c plus d with e. It is what most of the time goes into, and
// the first counts nearly always decide.
func compareSum(c, d, e *cost) int {
	for i := range c {
		if sum := c[i] + d[i]; sum != e[i] {
			return cmp.Compare(sum, e[i])
		}
	}
	return 0
}

// taken is what a choice takes of one card.
type taken struct {
	units    int // at least 1
	must     int // of these
	unlisted int // of these
	degraded int // of these
	free     int // units that could have been taken
	others   int // listed units that could not
}

func (t *taken) add(u candidate) {
	t.units++
	t.must += count(u.must)
	t.unlisted += count(u.unlisted)
	t.degraded += count(u.degraded)
}

// card is the cost of what is taken of one card.
func (p Policy) card(t taken) cost {
	broken := count(t.others == 0 && t.units < t.free)
	if p == Spread {
		return cost{-t.must, t.unlisted, pairs(t.units), t.degraded, t.units * t.others, 0, broken}
	}
	return cost{-t.must, t.unlisted, 1, 0, t.degraded, broken, pairs(t.free) - pairs(t.free-t.units)}
}

// node is the cost of taking anything from one NUMA node.
func (p Policy) node() cost {
	if p == Spread {
		return cost{5: 1}
	}
	return cost{3: 1}
}

// pairs is the number of pairs among n.
func pairs(n int) int { return n * (n - 1) / 2 }

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
