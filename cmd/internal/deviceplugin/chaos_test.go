package deviceplugin_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/watcher"
)

// histories is the number of random histories of each kind in TestChaos and TestPeers. Their seeds are 0, 1, 2 and so
// on.
var histories = flag.Int("histories", 1, "number of random histories of each kind")

// TestChaos makes random changes to a node while pods come and go, streams are cut and the kubelet restarts. At the
// end, and several times before, every resource's latest list must contain the devices that are on disk plus the
// devices that pods hold. In one variant, hints are lost, duplicated and reordered, and the ticks must find the
// changes. In the other one there are no ticks, so hints alone must be enough.
func TestChaos(t *testing.T) {
	for _, mode := range []string{offer.Single, offer.AF, offer.Region} {
		for _, hearing := range []struct {
			name           string
			resync, health time.Duration
			bad            bool
		}{
			{"bad ear", 200 * time.Millisecond, 100 * time.Millisecond, true},
			{"good ear, no ticks", time.Hour, time.Hour, false},
		} {
			for seed := range uint64(*histories) {
				t.Run(fmt.Sprintf("%s, %s, seed %d", mode, hearing.name, seed), func(t *testing.T) {
					t.Parallel()
					d := prepareDaemon(t, func(c *config.Config) {
						c.Mode, c.HostSysfsRoot = mode, c.SysfsRoot
						c.ResyncInterval, c.HealthInterval, c.RecoveryHold = hearing.resync, hearing.health, 10*time.Millisecond
					})
					var ear ear = goodEar
					if hearing.bad {
						ear = (&badEar{random: rand.New(rand.NewPCG(seed, 1))}).hear
					}
					chaos(d, ear, rand.New(rand.NewPCG(seed, 0)), 100)
				})
			}
		}
	}
}

func chaos(d *testDaemon, ear ear, random *rand.Rand, turns int) {
	inventory, stop := runWithEar(d.t, d.cfg, ear)
	defer stop()

	truth := newModel(d, inventory)
	defer func() {
		if d.t.Failed() {
			d.t.Logf("truth: %v", truth)
		}
	}()
	for turn := range turns {
		if random.IntN(5) == 0 {
			truth.turnPod(random)
		} else {
			truth.turn(random)
		}
		switch random.IntN(100) {
		case 0:
			d.restartKubelet()
		case 1, 2:
			resources := slices.Sorted(maps.Keys(d.lists()))
			if len(resources) > 0 {
				d.kubelet.CutStream(resources[random.IntN(len(resources))])
			}
		case 3, 4:
			truth.settle(fmt.Sprintf("in the middle, turn %d", turn))
		case 5, 6:
			truth.swap(random, fmt.Sprintf("card swapped, turn %d", turn))
		case 7, 8, 9: // not with wrong answers, which the daemon uses only for a short time
			d.pods.Behave([]simkubelet.PodBehaviour{{Stall: true}, {Fail: "not now"}, {Refuse: true}, {Garbage: true}}[random.IntN(4)])
		case 10, 11, 12:
			d.pods.Behave(simkubelet.PodBehaviour{})
		}
	}
	truth.settle("at the end")
	truth.releaseAll()
	truth.settle("without pods")
}

// ear passes a hint to the inventory or drops it.
type ear func(h watcher.Hint, to func(inventory.Hint))

func goodEar(h watcher.Hint, to func(inventory.Hint)) { to(inventory.Hint(h)) }

// lastWords returns a logger that checks its lines. If the test fails, it prints the end of the log.
func lastWords(t *testing.T) *zap.Logger {
	core, logs := eventtest.Observed(t)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		var said []string
		for _, line := range logs.All() {
			if line.Level > zap.DebugLevel {
				said = append(said, fmt.Sprintln(line.Time.Format(time.StampMicro), line.Message, line.ContextMap()))
			}
		}
		t.Logf("log:\n%s", strings.Join(said[max(0, len(said)-200):], ""))
	})
	return zap.New(core)
}

// runWithEar runs the daemon with the test's source of hints until stop is called.
func runWithEar(t *testing.T, cfg config.Config, ear ear) (inventory *inventory.Inventory, stop func()) {
	watched, settings := daemon.Watching(cfg, metrics.New("test")), server.Defaults()
	settings.Metrics = watched.Metrics
	var srv *server.Server
	sources := deviceplugin.Sources(cfg, daemon.OfferNaming(cfg).Owns)
	sources.Confirm, sources.Admission = 50*time.Millisecond, time.Second
	sources.Allocations, sources.Refresh = settings.Allocations, func() bool { return srv.Refresh() }
	use := holders.New(sources)
	watched.Holders, watched.Given = use.Ask, settings.Allocations.Added()
	watched.HoldersInterval = 50 * time.Millisecond
	log := lastWords(t)
	watched.Record = must.Value(use.Record(t.Context()))(t)
	node := must.Value(daemon.OpenNode(cfg, watched, log, log))(t)
	settings.KubeletDir, settings.HostDevRoot, settings.HostSysRoot = cfg.KubeletDir, cfg.HostDevRoot, cfg.HostSysfsRoot
	settings.BackoffMax = time.Second
	// If a stream is closed before it arrives, it looks as if none had been opened.
	settings.StreamTimeout = time.Second
	settings.RetireAfter = 200 * time.Millisecond
	srv = server.New(settings, node.Inventory, log)
	ctx, cancel := context.WithCancel(t.Context())
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error {
		return node.Watcher.Run(ctx, func(h watcher.Hint) { ear(h, node.Inventory.Hint) })
	})
	tasks.Go(func() error { return node.Inventory.Run(ctx) })
	tasks.Go(func() error { return srv.Run(ctx) })
	return node.Inventory, func() {
		cancel()
		compare.NoError(t, "daemon", tasks.Wait())
	}
}

// badEar drops one hint in four, duplicates one in four, and delays one in four until a later hint.
type badEar struct {
	mu     sync.Mutex // the watcher sends hints from several goroutines
	random *rand.Rand
	kept   []watcher.Hint
}

func (e *badEar) hear(h watcher.Hint, to func(inventory.Hint)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.random.IntN(4) {
	case 0:
	case 1:
		goodEar(h, to)
		goodEar(h, to)
	case 2:
		e.kept = append(e.kept, h)
	case 3:
		goodEar(h, to)
		for _, late := range e.kept {
			goodEar(late, to)
		}
		e.kept = nil
	}
}
