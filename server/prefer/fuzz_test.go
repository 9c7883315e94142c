package prefer_test

import (
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/server/prefer"
)

// Similar names, and unusual ones.
var (
	fuzzIDs   = []string{"", "0", "3b:00.0", "3b:00.0-p1", "3b:00.0-p10", "3b:00.0-p2", "é", "\xff", "0000:3b:00.0"}
	fuzzCards = []string{"", "0", "0000:3b:00.0", "3b:00.0", "\xff"}
)

// fuzzQuestion parses devices of three bytes each: the ID, the card, and bits for listed, available, must, degraded and
// the NUMA node, which may be invalid.
func fuzzQuestion(data []byte, size int) question {
	q := question{size: size}
	for b := range slices.Chunk(data, 3) {
		if len(b) < 3 {
			break
		}
		id, bits := fuzzIDs[int(b[0])%len(fuzzIDs)], b[2]
		if bits&1 != 0 && !slices.ContainsFunc(q.listed, func(u prefer.Device) bool { return u.ID == id }) {
			q.listed = append(q.listed, prefer.Device{ID: id, Card: fuzzCards[int(b[1])%len(fuzzCards)], NUMANode: int(bits>>4) - 2, Degraded: bits&8 != 0})
		}
		if bits&2 != 0 {
			q.available = append(q.available, id)
		}
		if bits&4 != 0 {
			q.must = append(q.must, id)
		}
	}
	return q
}

// Whatever the arguments, Choose returns an error if they can't be satisfied. Otherwise it returns all of must plus
// free devices, as many as requested or as there are, regardless of the order of the arguments. It uses as few cards as
// possible (packed), or puts as few pairs of devices on the same card as possible (spread).
func FuzzChoose(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte{0, 0, 3, 1, 0, 3, 2, 0, 3}, 2)                        // a pool
	f.Add([]byte{2, 2, 3, 3, 2, 7, 4, 2, 1, 8, 3, 11, 6, 3, 19}, 3)    // two cards, a must
	f.Add([]byte{2, 2, 3, 2, 3, 35, 2, 2, 6, 5, 0, 2, 7, 1, 4}, 1<<62) // twice, unlisted, too many
	f.Add([]byte{2, 2, 7, 3, 2, 7}, 1)                                 // no room
	f.Add([]byte{2, 2, 3}, -1)
	r := rand.New(rand.NewPCG(4, 4))
	for range 2000 {
		data := make([]byte, 3*(1+r.IntN(9)))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data, r.IntN(9))
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		q := fuzzQuestion(data, size)
		must := slices.Compact(slices.Sorted(slices.Values(q.must)))
		free := map[string]prefer.Device{} // by ID: both listed and available, or in must
		for _, u := range q.listed {
			if slices.Contains(q.available, u.ID) || slices.Contains(must, u.ID) {
				free[u.ID] = u
			}
		}
		for _, spread := range []bool{false, true} {
			got, err := prefer.Choose(q.listed, q.available, q.must, size, spread)
			if size < len(must) {
				if err == nil || got != nil {
					t.Errorf("spread %t: got %q, %v; want an error: %d musts, size %d", spread, got, err, len(must), size)
				}
				continue
			}
			unlisted := slices.DeleteFunc(slices.Clone(must), func(id string) bool { _, ok := free[id]; return ok })
			if want := min(size, len(free)+len(unlisted)); err != nil || len(got) != want || !slices.IsSorted(got) {
				t.Fatalf("spread %t: got %q, %v; want %d units, sorted: %+v", spread, got, err, want, q)
			}
			for _, id := range got {
				if _, ok := free[id]; !ok && !slices.Contains(must, id) {
					t.Errorf("spread %t: got %q, want no %q: %+v", spread, got, id, q)
				}
			}
			for _, id := range must {
				if !slices.Contains(got, id) {
					t.Errorf("spread %t: got %q, want %q in it: %+v", spread, got, id, q)
				}
			}
			if cost, least := costOf(free, got, spread), leastCost(free, must, len(got)-len(unlisted), spread); cost != least {
				t.Errorf("spread %t: got %q of cost %d, want %d: %+v", spread, got, cost, least, q)
			}
			slices.Reverse(q.listed)
			slices.Reverse(q.available)
			if again, _ := prefer.Choose(q.listed, q.available, q.must, size, spread); !slices.Equal(got, again) {
				t.Errorf("spread %t: got %q, then %q in another order: %+v", spread, got, again, q)
			}
		}
	})
}

// costOf returns how many cards the chosen devices are on, or, with spread, how many pairs of them share a card.
func costOf(free map[string]prefer.Device, ids []string, spread bool) (cost int) {
	on := map[prefer.Device]int{}
	for _, id := range ids {
		u, ok := free[id]
		if !ok {
			continue
		}
		card := prefer.Device{Card: u.Card, NUMANode: u.NUMANode}
		if u.Card == "" {
			card.ID = id
		}
		if n := on[card]; spread {
			cost += n
		} else if n == 0 {
			cost++
		}
		on[card]++
	}
	return cost
}

// leastCost returns the lowest cost of any choice of this size.
func leastCost(free map[string]prefer.Device, must []string, size int, spread bool) int {
	ids, least := slices.Sorted(maps.Keys(free)), -1
	for set := range uint(1) << len(ids) {
		if bits.OnesCount(set) != size {
			continue
		}
		var chosen []string
		for i, id := range ids {
			if set>>i&1 == 1 {
				chosen = append(chosen, id)
			}
		}
		if slices.ContainsFunc(must, func(id string) bool {
			_, ok := free[id]
			return ok && !slices.Contains(chosen, id)
		}) {
			continue
		}
		if cost := costOf(free, chosen, spread); least < 0 || cost < least {
			least = cost
		}
	}
	return max(0, least)
}
