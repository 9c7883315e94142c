package prefer_test

import (
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

// fuzzQuestion parses units of three bytes: id, card, and bits for listed, available, must, degraded
// and the NUMA node, which may be an invalid one.
func fuzzQuestion(data []byte, size int) question {
	q := question{size: size}
	for b := range slices.Chunk(data, 3) {
		if len(b) < 3 {
			break
		}
		id, bits := fuzzIDs[int(b[0])%len(fuzzIDs)], b[2]
		if bits&1 != 0 && !slices.ContainsFunc(q.listed, func(u prefer.Unit) bool { return u.ID == id }) {
			q.listed = append(q.listed, prefer.Unit{ID: id, Card: fuzzCards[int(b[1])%len(fuzzCards)], NUMANode: int(bits>>4) - 2, Degraded: bits&8 != 0})
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

// For any arguments, Choose returns an error if they cannot be met, else the best of all choices.
func FuzzChoose(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte{0, 0, 3, 1, 0, 3, 2, 0, 3}, 2)                        // a pool
	f.Add([]byte{2, 2, 3, 3, 2, 7, 4, 2, 1, 8, 3, 11, 6, 3, 19}, 3)    // two cards, a must
	f.Add([]byte{2, 2, 3, 2, 3, 35, 2, 2, 6, 5, 0, 2, 7, 1, 4}, 1<<62) // twice, unlisted, too many
	f.Add([]byte{2, 2, 7, 3, 2, 7}, 1)                                 // no room
	f.Add([]byte{2, 2, 3}, -1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		q := fuzzQuestion(data, size)
		musts := len(slices.Compact(slices.Sorted(slices.Values(q.must))))
		for _, policy := range prefer.Policies() {
			if size < musts {
				got, err := prefer.Choose(q.listed, q.available, q.must, size, prefer.Policy(policy))
				if err == nil || got != nil {
					t.Errorf("%s: got %q, %v; want an error: %d musts, size %d", policy, got, err, musts, size)
				}
				continue
			}
			check(t, rand.New(rand.NewPCG(0, 0)), q, prefer.Policy(policy))
		}
	})
}
