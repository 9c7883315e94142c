package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

// The time from a new snapshot until the kubelet has received its list.
func BenchmarkChangeToList(b *testing.B) {
	for _, n := range []int{1, 32, 1024} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			healthy := ports(n)
			broken := append([]*inventory.Device{sick(healthy[0].ID, "afu-dead")}, healthy[1:]...)
			r, k := started(b, healthy...)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				list := broken
				if i%2 == 1 {
					list = healthy
				}
				began := time.Now()
				r.devices.set(list...)
				received, err := k.AwaitList(r.ctx, resource, func(l simkubelet.List) bool { return l.Devices[0].Healthy == (i%2 == 1) })
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, received.Received.Sub(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
