package prefer_test

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"b-com.com/accelerator-device-plugin/server/prefer"
)

// subsets has the listed units of a question that are free, and all musts, sorted by id. A choice
// of them is a set of bits, bit 0 for the lowest id. Its costs follow the definitions in the
// package documentation literally.
type subsets struct {
	ids            []string
	must, degraded uint
	cards          []card
	nodes          []uint
}

type card struct {
	free   uint
	listed int // units, free or not
}

func newSubsets(q question) subsets {
	free := map[string]bool{}
	for _, id := range q.must {
		free[id] = true
	}
	for _, u := range q.listed {
		if slices.Contains(q.available, u.ID) {
			free[u.ID] = true
		}
	}
	s := subsets{ids: slices.Sorted(maps.Keys(free))}
	cards, nodes := map[string]*card{}, map[int]uint{}
	for rank, id := range s.ids {
		bit := uint(1) << rank
		if slices.Contains(q.must, id) {
			s.must |= bit
		}
		i := slices.IndexFunc(q.listed, func(u prefer.Unit) bool { return u.ID == id })
		if i < 0 {
			continue // no cost
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

// cost returns the cost of a choice.
func (s subsets) cost(chosen uint, policy prefer.Policy) [5]int {
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
	degraded := bits.OnesCount(s.degraded & chosen)
	if policy == prefer.Packed {
		return [...]int{cards, nodes, degraded, broken, apart}
	}
	return [...]int{pairs, degraded, neighbours, nodes, broken}
}

// best returns the best of all choices of this size that include all musts, and its cost.
func (s subsets) best(size int, policy prefer.Policy) (uint, [5]int) {
	var best uint
	var least [5]int
	for chosen := range uint(1) << len(s.ids) {
		if bits.OnesCount(chosen) != size || s.must&^chosen != 0 {
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
