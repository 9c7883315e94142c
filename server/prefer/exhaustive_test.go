package prefer_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

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

// random is a board of at most 10 units on cards of 1 to 4 ports and up to three
// NUMA nodes, or none, and what could be asked of it.
func random(r *rand.Rand) question {
	units := 1 + r.IntN(10)
	names := r.Perm(units)
	if r.IntN(2) == 0 { // the units of a card follow one another
		slices.Sort(names)
	}
	nodes := []int{-1, 0, 1, 2}[r.IntN(2):][:1+r.IntN(3)]
	ill, held, must := r.Float64(), r.Float64()*0.7, max(0, r.Float64()-0.5)
	var q question
	for cards := 0; len(q.listed) < units; cards++ {
		node := nodes[r.IntN(len(nodes))]
		name := fmt.Sprint("card", cards)
		if r.IntN(8) == 0 {
			name = ""
		}
		for range min(1+r.IntN(4), units-len(q.listed)) {
			if r.IntN(50) == 0 {
				node = nodes[r.IntN(len(nodes))]
			}
			id := fmt.Sprint("u", names[len(q.listed)])
			q.listed = append(q.listed, prefer.Unit{ID: id, Card: name, NUMANode: node, Degraded: r.Float64() < ill})
			free := r.Float64() >= held
			if free {
				q.available = append(q.available, id)
			}
			if free && r.Float64() < must {
				q.must = append(q.must, id)
			}
		}
	}
	if r.IntN(4) == 0 { // the kubelet has not heard of the latest list
		i := r.IntN(units)
		q.listed = slices.Delete(q.listed, i, i+1)
	}
	q.size = len(q.must) + r.IntN(len(q.available)-len(q.must)+1)
	shuffle(r, &q)
	return q
}

func shuffle(r *rand.Rand, q *question) {
	r.Shuffle(len(q.listed), func(i, j int) { q.listed[i], q.listed[j] = q.listed[j], q.listed[i] })
	r.Shuffle(len(q.available), func(i, j int) { q.available[i], q.available[j] = q.available[j], q.available[i] })
	r.Shuffle(len(q.must), func(i, j int) { q.must[i], q.must[j] = q.must[j], q.must[i] })
}

// The one best choice, among all there are, in whatever order it is asked for.
func TestChooseBest(t *testing.T) {
	const boards = 6000
	r := rand.New(rand.NewPCG(4, 4))
	var met [7]int // boards whose best choice costs something at this place
	for board := range boards {
		q := random(r)
		s := newSubsets(q)
		for _, name := range prefer.Policies() {
			policy := prefer.Policy(name)
			want, least := s.best(q.size, policy)
			for range 2 {
				got, err := prefer.Choose(q.listed, q.available, q.must, q.size, policy)
				if err != nil {
					t.Fatalf("board %d, %s: %v\n%+v", board, policy, err, q)
				}
				if cost := s.cost(s.chosen(got), policy); cost != least {
					t.Fatalf("board %d, %s: %v costs %v, but %v costs %v\n%+v", board, policy, got, cost, s.names(want), least, q)
				}
				if !slices.Equal(got, s.names(want)) {
					t.Fatalf("board %d, %s: got %v, want %v of lower ids\n%+v", board, policy, got, s.names(want), q)
				}
				shuffle(r, &q)
			}
			for i, n := range least {
				met[i] += cmp.Compare(n, 0)
			}
		}
	}
	if met[0] != 0 {
		t.Errorf("%d best choices miss a must", met[0])
	}
	for i, n := range met[1:] {
		if n < boards/50 {
			t.Errorf("only %d boards, where %d are meant, have a cost at place %d", n, boards/50, i+1)
		}
	}
}
