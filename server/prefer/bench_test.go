package prefer_test

import (
	"fmt"
	"testing"

	"b-com.com/accelerator-device-plugin/server/prefer"
)

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
