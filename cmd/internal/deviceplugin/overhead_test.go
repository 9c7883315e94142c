package deviceplugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/task"
)

// BenchmarkLogOverhead measures how much time logging adds between a hint and the kubelet's end of the stream, at the
// default level, as JSON, to a real file descriptor. It runs two daemons alternately, one of them without a log, and
// compares the medians.
func BenchmarkLogOverhead(b *testing.B) {
	silent := newPath(b, metrics.New("silent"), zap.NewNop())
	devNull := must.Value(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(b)
	defer devNull.Close()
	counts := metrics.New("test")
	log := daemon.OpenLog(config.Defaults(), devNull, counts)
	defer log.Close()
	defer log.EndCounts()
	logged := newPath(b, counts, log.Logger)
	var silentTimes, loggedTimes []time.Duration
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			silentTimes, loggedTimes = append(silentTimes, silent.change(b, i)), append(loggedTimes, logged.change(b, i))
		} else {
			loggedTimes, silentTimes = append(loggedTimes, logged.change(b, i)), append(silentTimes, silent.change(b, i))
		}
	}
	m, t := median(silentTimes), median(loggedTimes)
	b.ReportMetric(float64(m)/1e3, "silent-median-µs")
	b.ReportMetric(float64(t)/1e3, "logged-median-µs")
	b.ReportMetric(float64(t)/float64(m), "logged/silent")
	b.ReportMetric(0, "ns/op") // not reported, because it would include changing the tree
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func pathCard(i int) string { return fmt.Sprintf("0000:%02x:00.0", i) }

// path contains the parts that a hint passes through: the inventory, the server, gRPC over a unix socket, and a
// kubelet.
type path struct {
	node      *simnode.Node
	inventory *inventory.Inventory
	kubelet   *simkubelet.Kubelet
}

// newPath starts a path on a node with 32 cards.
func newPath(b *testing.B, m *metrics.Metrics, log *zap.Logger) *path {
	b.Helper()
	dir, p := cmdtest.ShortDir(b), &path{}
	p.node = must.Value(simnode.New(dir))(b)
	for i := range 32 {
		must.Succeed(b, p.node.Plug(simnode.Card{Address: pathCard(i), Ports: 1, AFUID: cardA.AFUID, InterfaceID: cardA.InterfaceID}))
	}
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot, cfg.RecoveryHold, cfg.FlapLimit = p.node.Sys, p.node.Dev, 0, 0
	watched, settings := daemon.Watching(cfg, m), server.Defaults()
	watched.ResyncInterval, watched.HealthInterval = time.Hour, time.Hour
	settings.KubeletDir = filepath.Join(dir, "kubelet")
	settings.Metrics = m
	p.inventory = inventory.New(watched, sysfs.Host{Sys: p.node.Sys, Dev: p.node.Dev, Simulated: true}, log)
	srv := server.New(settings, p.inventory, log)
	p.kubelet = must.Value(simkubelet.Start(context.WithoutCancel(b.Context()), settings.KubeletDir, simkubelet.Behaviour{}))(b)
	b.Cleanup(p.kubelet.Stop)
	task.Run(b, p.inventory.Run)
	task.Run(b, srv.Run)
	must.Value(p.kubelet.AwaitList(b.Context(), testResource, func(l simkubelet.List) bool { return len(l.Devices) == 32 }))(b)
	return p
}

// change breaks or heals a port, and returns the time from the hint until the kubelet has the
// list.
func (p *path) change(b *testing.B, i int) time.Duration {
	card, healthy, value := i/2%32, i%2 == 1, "0x4000000000000"
	if healthy {
		value = "0x0"
	}
	must.Succeed(b, p.node.Set(pathCard(card), 0, "errors/errors", value))
	began := time.Now()
	p.inventory.Hint(inventory.Hint{Card: pathCard(card), Source: "test", At: began})
	list := must.Value(p.kubelet.AwaitList(b.Context(), testResource, func(l simkubelet.List) bool { return l.Devices[card].Healthy == healthy }))(b)
	return list.Received.Sub(began)
}
