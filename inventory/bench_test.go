package inventory_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/must"
)

// BenchmarkChange measures the time from a hint for one card to the snapshot that contains the change, on nodes with
// different numbers of cards. The time must not grow with the number of cards.
func BenchmarkChange(b *testing.B) {
	for _, cards := range []int{1, 32, 1024} {
		b.Run(fmt.Sprintf("cards=%d", cards), func(b *testing.B) { benchmarkChange(b, cards) })
	}
}

func benchmarkChange(b *testing.B, cards int) {
	node := must.Value(simnode.New(b.TempDir()))(b)
	for i := range cards {
		must.Succeed(b, node.Plug(simnode.Card{Address: address(i), Ports: 1, AFUID: afu1, InterfaceID: afu2}))
	}
	cfg := inventory.Config{
		ResyncInterval: time.Hour, HealthInterval: time.Hour, ReprogramTimeout: time.Hour, ReadTimeout: time.Minute,
		Metrics: metrics.New("test"),
	}
	cfg.Policy.Families = []inventory.Family{dfl.Family(port.PerPort)}
	inv := inventory.New(cfg, sysfs.Host{Sys: node.Sys, Dev: node.Dev, Simulated: true}, zap.NewNop())
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- inv.Run(ctx) }()
	defer func() { cancel(); <-done }()
	snapshot, stale := inv.Latest()
	for ; !snapshot.Complete; snapshot, stale = inv.Latest() {
		<-stale
	}

	values := []string{"0x4000000000000", "0x0"}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		must.Succeed(b, node.Set(address(0), 0, "errors/errors", values[i%2]))
		_, stale := inv.Latest()
		begin := time.Now()
		inv.Hint(inventory.Hint{Card: address(0), At: begin})
		<-stale
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "median-ns/change")
	b.ReportMetric(0, "ns/op") // not reported, because it includes changing the tree
}

func address(i int) string { return fmt.Sprintf("%04x:%02x:00.0", i>>8, i&0xff) }
