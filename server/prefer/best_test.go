package prefer_test

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/server/prefer"
)

// check compares the answers for two orders of the arguments with the best of all choices. It
// returns the cost of the best choice.
func check(t *testing.T, r *rand.Rand, q question, policy prefer.Policy) [5]int {
	t.Helper()
	s := newSubsets(q)
	want, least := s.best(min(q.size, len(s.ids)), policy)
	for range 2 {
		got, err := prefer.Choose(q.listed, q.available, q.must, q.size, policy)
		if err != nil {
			t.Fatalf("%s: %v\n%+v", policy, err, q)
		}
		if cost := s.cost(s.chosen(got), policy); cost != least {
			t.Fatalf("%s: %q costs %v, but %q costs %v\n%+v", policy, got, cost, s.names(want), least, q)
		}
		if !slices.Equal(got, s.names(want)) {
			t.Fatalf("%s: got %q, want %q of lower ids\n%+v", policy, got, s.names(want), q)
		}
		shuffle(r, &q)
	}
	return least
}

// Choose returns the best of all choices for any order of the arguments.
func TestChooseBest(t *testing.T) {
	for _, tc := range []struct {
		name          string
		boards, units int
	}{
		{"many small boards", 6000, 10},
		{"some larger ones", 60, 14},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, 4))
			var met [5]int // boards whose best choice has a cost above 0 at this index
			for range tc.boards {
				q := random(r, tc.units)
				for _, policy := range prefer.Policies() {
					for i, n := range check(t, r, q, prefer.Policy(policy)) {
						met[i] += cmp.Compare(n, 0)
					}
				}
			}
			for i, n := range met {
				if n < tc.boards/50 {
					t.Errorf("boards with a cost at index %d: found %d of %d, want more", i, n, tc.boards)
				}
			}
		})
	}
}

// The fewest pairs are the most cards possible.
func TestSpreadMostCards(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 1500 {
		q := random(r, 10)
		s := newSubsets(q)
		got, err := prefer.Choose(q.listed, q.available, q.must, q.size, prefer.Spread)
		if err != nil {
			t.Fatal(err)
		}
		const cards = 0 // index of the count cards in Packed's cost
		spread := s.cost(s.chosen(got), prefer.Packed)
		for chosen := range uint(1) << len(s.ids) {
			if bits.OnesCount(chosen) != len(got) || s.must&^chosen != 0 {
				continue
			}
			if other := s.cost(chosen, prefer.Packed); other[cards] > spread[cards] {
				t.Fatalf("%q on %d cards, but %q on %d\n%+v", got, spread[cards], s.names(chosen), other[cards], q)
			}
		}
	}
}

// On a board with too many choices to compare all, no choice that differs in one unit is better.
func TestChooseBigNoExchange(t *testing.T) {
	for _, size := range []int{1, 2, 5, 12, 23} {
		q := big(16, 4, size)
		s := newSubsets(q)
		for _, name := range prefer.Policies() {
			policy := prefer.Policy(name)
			ids, err := prefer.Choose(q.listed, q.available, q.must, q.size, policy)
			if err != nil {
				t.Fatal(err)
			}
			best := s.chosen(ids)
			least := s.cost(best, policy)
			for out := range s.ids {
				for in := range s.ids {
					other := best&^(1<<out) | 1<<in
					if best>>out&1 == 0 || best>>in&1 == 1 {
						continue
					}
					cost := s.cost(other, policy)
					if slices.Compare(cost[:], least[:]) < 0 || cost == least && in < out {
						t.Errorf("size %d, %s: got %q, better with %s than with %s", size, policy, ids, s.ids[in], s.ids[out])
					}
				}
			}
		}
	}
}

// All units of any number are chosen, and the last one if it must be included.
func TestChooseAll(t *testing.T) {
	for _, units := range []int{1, 63, 64, 65, 128, 1000} {
		var q question
		for i := range units {
			id := fmt.Sprintf("%04d", i)
			q.listed = append(q.listed, prefer.Unit{ID: id, Card: id[:3], NUMANode: i % 3})
			q.available = append(q.available, id)
		}
		for _, policy := range prefer.Policies() {
			got, err := prefer.Choose(q.listed, q.available, nil, units, prefer.Policy(policy))
			if err != nil || !slices.Equal(got, q.available) {
				t.Errorf("%s, all of %d: %q, %v", policy, units, got, err)
			}
			last := q.available[units-1:]
			got, err = prefer.Choose(q.listed, q.available, last, 1, prefer.Policy(policy))
			if err != nil || !slices.Equal(got, last) {
				t.Errorf("%s, the last of %d: %q, %v", policy, units, got, err)
			}
		}
	}
}

// The result does not depend on the order of the arguments, and Choose does not modify them.
func TestChooseBigAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, policy := range prefer.Policies() {
		q := big(256, 4, 64)
		q.must = slices.Clone(q.available[:7])
		var first []string
		for range 5 {
			listed, available, must := slices.Clone(q.listed), slices.Clone(q.available), slices.Clone(q.must)
			got, err := prefer.Choose(q.listed, q.available, q.must, q.size, prefer.Policy(policy))
			if err != nil || len(got) != q.size {
				t.Fatalf("%s: %d units, %v; want %d", policy, len(got), err, q.size)
			}
			if !slices.Equal(listed, q.listed) || !slices.Equal(available, q.available) || !slices.Equal(must, q.must) {
				t.Errorf("%s: the arguments were modified", policy)
			}
			if first == nil {
				first = got
			}
			if !slices.Equal(got, first) {
				t.Errorf("%s: got %q, then %q", policy, first, got)
			}
			shuffle(r, &q)
		}
	}
}
