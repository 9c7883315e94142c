package prefer_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"b-com.com/accelerator-device-plugin/server/prefer"
)

// subsets is the free units of a question, sorted by id: a choice of them is a set
// of bits, bit 0 for the lowest id. Its costs are the definitions of the package's
// documentation, word by word.
type subsets struct {
	ids                      []string
	must, unlisted, degraded uint
	cards                    []card
	nodes                    []uint
}

type card struct {
	free   uint
	listed int // units, free or not
}

func newSubsets(q question) subsets {
	free := map[string]bool{}
	for _, id := range slices.Concat(q.available, q.must) {
		free[id] = true
	}
	q.listed = slices.Clone(q.listed)
	slices.SortFunc(q.listed, func(a, b prefer.Unit) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Card, b.Card), cmp.Compare(a.NUMANode, b.NUMANode), cmp.Compare(fmt.Sprint(a.Degraded), fmt.Sprint(b.Degraded)))
	})
	q.listed = slices.CompactFunc(q.listed, func(a, b prefer.Unit) bool { return a.ID == b.ID })
	s := subsets{ids: slices.Sorted(maps.Keys(free))}
	cards, nodes := map[string]*card{}, map[int]uint{}
	for rank, id := range s.ids {
		bit := uint(1) << rank
		if slices.Contains(q.must, id) {
			s.must |= bit
		}
		i := slices.IndexFunc(q.listed, func(u prefer.Unit) bool { return u.ID == id })
		if i < 0 {
			s.unlisted |= bit
			s.cards = append(s.cards, card{bit, 1})
			nodes[-1] |= bit
			continue
		}
		if q.listed[i].Degraded {
			s.degraded |= bit
		}
		nodes[q.listed[i].NUMANode] |= bit
	}
	for _, u := range q.listed {
		key := fmt.Sprint(u.NUMANode, " card ", u.Card)
		if u.Card == "" {
			key = fmt.Sprint("own ", u.ID)
		}
		if cards[key] == nil {
			cards[key] = &card{}
		}
		cards[key].listed++
		if rank, ok := slices.BinarySearch(s.ids, u.ID); ok {
			cards[key].free |= 1 << rank
		}
	}
	for _, c := range cards {
		s.cards = append(s.cards, *c)
	}
	s.nodes = slices.Collect(maps.Values(nodes))
	return s
}

// cost of a choice.
func (s subsets) cost(chosen uint, policy prefer.Policy) [7]int {
	var cards, pairs, nodes, neighbours, broken, apart int
	for _, c := range s.cards {
		of := chosen & c.free
		if of == 0 {
			continue
		}
		cards++
		others := c.listed - bits.OnesCount(c.free)
		neighbours += bits.OnesCount(of) * others
		if others == 0 && of != c.free {
			broken++
		}
		for i := range s.ids {
			for j := range i {
				pair := uint(1)<<i | 1<<j
				if pair&c.free == pair && pair&chosen != 0 {
					apart++
				}
				if pair&of == pair {
					pairs++
				}
			}
		}
	}
	for _, node := range s.nodes {
		if chosen&node != 0 {
			nodes++
		}
	}
	missing, unlisted, degraded := bits.OnesCount(s.must&^chosen), bits.OnesCount(s.unlisted&chosen), bits.OnesCount(s.degraded&chosen)
	if policy == prefer.Packed {
		return [...]int{missing, unlisted, cards, nodes, degraded, broken, apart}
	}
	return [...]int{missing, unlisted, pairs, degraded, neighbours, nodes, broken}
}

// best looks at every choice of so many units.
func (s subsets) best(size int, policy prefer.Policy) (uint, [7]int) {
	var best uint
	var least [7]int
	for chosen := range uint(1) << len(s.ids) {
		if bits.OnesCount(chosen) != size {
			continue
		}
		cost := s.cost(chosen, policy)
		order := slices.Compare(cost[:], least[:])
		if best == 0 || order < 0 || order == 0 && bits.Reverse(chosen) > bits.Reverse(best) {
			best, least = chosen, cost
		}
	}
	return best, least
}

func (s subsets) chosen(ids []string) uint {
	var chosen uint
	for _, id := range ids {
		if rank, ok := slices.BinarySearch(s.ids, id); ok {
			chosen |= 1 << rank
		}
	}
	return chosen
}

func (s subsets) names(chosen uint) []string {
	names := []string{}
	for rank, id := range s.ids {
		if chosen>>rank&1 == 1 {
			names = append(names, id)
		}
	}
	return names
}
