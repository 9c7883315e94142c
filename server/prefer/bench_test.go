package prefer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"b-com.com/accelerator-device-plugin/server/prefer"
)

// big is cards of so many ports each, on four NUMA nodes, of which a quarter of the
// units are held by others and a few degraded. No ports: a pool.
func big(cards, ports, size int) question {
	r := rand.New(rand.NewPCG(uint64(cards), uint64(ports)))
	q := question{size: size}
	for c := range cards {
		unit := prefer.Unit{Card: fmt.Sprintf("0000:%02x:00.0", c), NUMANode: c % 4}
		if ports == 0 {
			unit = prefer.Unit{NUMANode: -1}
		}
		for p := range max(1, ports) {
			unit.ID = fmt.Sprintf("%02x:00.0-p%d", c, p)
			unit.Degraded = r.IntN(16) == 0
			q.listed = append(q.listed, unit)
			if r.IntN(4) > 0 {
				q.available = append(q.available, unit.ID)
			}
		}
	}
	shuffle(r, &q)
	return q
}

func BenchmarkChoose(b *testing.B) {
	for _, tc := range []struct{ cards, ports, size int }{
		{1, 4, 2}, {8, 4, 4}, {256, 4, 64}, {1024, 1, 64}, {256, 4, 384}, {10_000, 0, 64}, {10_000, 0, 5000},
	} {
		q := big(tc.cards, tc.ports, tc.size)
		for _, policy := range prefer.Policies() {
			b.Run(fmt.Sprintf("cards=%d/ports=%d/size=%d/%s", tc.cards, tc.ports, tc.size, policy), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := prefer.Choose(q.listed, q.available, q.must, q.size, prefer.Policy(policy)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
