package deviceplugin_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

// successor is a daemon with other settings on the same node, with the same kubelet and pods, as in an upgrade with
// surge. It is not started yet.
func (d *testDaemon) successor(adjust func(*config.Config)) *testDaemon {
	d.t.Helper()
	next := *d
	next.cfg.Socket += "2" // each pod has its own
	next.cfg.HTTPAddress = freeAddress(d.t)
	adjust(&next.cfg)
	next.hangups, next.loader = make(chan os.Signal), daemon.NewLoader()
	next.loader.Config = next.cfg
	return &next
}

// ready reports whether the daemon is ready and alive.
func (d *testDaemon) ready() bool {
	for _, path := range []string{"/readyz", "/healthz"} {
		answer, err := probe.Get("http://" + d.cfg.HTTPAddress + path)
		if err != nil {
			return false
		}
		answer.Body.Close()
		if answer.StatusCode != 200 {
			return false
		}
	}
	return true
}

// awaitReady blocks until the daemon is ready.
func (d *testDaemon) awaitReady(when string) {
	d.t.Helper()
	for deadline := time.After(20 * time.Second); !d.ready(); {
		select {
		case <-deadline:
			d.t.Fatalf("%s: not ready", when)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// away returns the longest time for which a device was healthy on no list, from now until done is closed.
func (d *testDaemon) away(id string, done <-chan struct{}) (longest time.Duration) {
	since := time.Now()
	for ended := false; !ended; {
		healthy := false
		for _, list := range d.lists() {
			healthy = healthy || slices.ContainsFunc(list, func(of simkubelet.Device) bool { return of.ID == id && of.Healthy })
		}
		if longest = max(longest, time.Since(since)); healthy {
			since = time.Now()
		}
		select {
		case <-done:
			ended = true
		case <-time.After(time.Millisecond):
		}
	}
	return longest
}

// In an upgrade that changes the names of devices, the new daemon is ready while the old one lives, and offers nothing.
// When the old one has ended, it offers what is free, within two seconds. A held device stays with its pod. In an
// upgrade that does not change them, both offer the devices, which are never away.
func TestUpgradeWithOtherNames(t *testing.T) {
	card := offers{testResource: {"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true}}
	for _, test := range []struct {
		name   string
		adjust func(*config.Config)
		holds  string // the pod holds this device; "": none
		want   offers
	}{
		{"mode", func(c *config.Config) { c.Mode = offer.AF }, "3b:00.0-p1",
			offers{testResource: {"3b:00.0-p1": false}, afAa: {"3b:00.0": true}, afBb: {"5e:00.0": true}}},
		{"mode with other units", func(c *config.Config) { c.Mode = offer.Region }, "3b:00.0-p1",
			offers{testResource: {"3b:00.0-p1": false}, regionA: {"3b:00.0": false}, regionB: {"5e:00.0": true}}},
		{"resource name", func(c *config.Config) { c.ResourceName = "example.com/card" }, "", // free ones only
			offers{"example.com/card": {"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true}}},
		{"rules", func(c *config.Config) {
			c.Resources = []offer.Rule{{Resource: "example.com/nlb", Match: offer.Match{AFUID: cardB.AFUID}}}
		}, "3b:00.0-p1", offers{testResource: {"3b:00.0": true, "3b:00.0-p1": true}, "example.com/nlb": {"5e:00.0": true}}},
		{"same names", func(c *config.Config) { c.AllocationPolicy = "spread" }, "3b:00.0-p1", card},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			old := prepareDaemon(t, nil)
			old.timing = nil // the intervals of production
			old.do(old.node.Plug(cardA))
			old.do(old.node.Plug(cardB))
			old.run()
			old.awaitOffers("the old daemon", card)
			same := test.name == "same names"

			next := old.successor(test.adjust)
			next.run()
			next.awaitReady("both run")
			if !same {
				next.awaitLine("owner.waiting", "reason:naming")
				next.awaitSeries(`accelerator_owner_waiting{reason="naming"} 1`)
			}
			// A pod gets a device while both run.
			if test.holds != "" {
				old.hold("job", testResource, test.holds)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if lists, err := old.kubelet.AwaitLists(ctx, func(lists map[string]simkubelet.List) bool {
				return len(lists) != 1 || !maps.Equal(told(lists[testResource]), card[testResource])
			}); err == nil {
				t.Errorf("both run: found %v, want only what the old daemon offers", lists)
			}

			done, longest := make(chan struct{}), make(chan time.Duration, 1)
			go func() { longest <- old.away("5e:00.0", done) }()
			old.do(old.stop())
			next.awaitOffers("the old daemon has ended", test.want)
			close(done)
			gap := <-longest
			t.Logf("a free device was away for %s", gap)
			most := 2 * time.Second
			if same {
				most = 100 * time.Millisecond // 0 but for the end of the stream, on a busy machine
			}
			if gap > most {
				t.Errorf("a free device was away for %s, want at most %s", gap, most)
			}
			next.awaitReady("the old daemon has ended")
			if test.holds != "" {
				old.pods.Release("default", "job")
			}
			next.do(next.stop())
		})
	}
}

// Two daemons never write the CDI spec in turn: the one that waits leaves the file of the other as it is, and replaces
// it when it offers the devices.
func TestUpgradeWithOtherNamesAndCDI(t *testing.T) {
	t.Parallel()
	old := prepareDaemon(t, withCDI(t))
	old.timing = nil
	old.do(old.node.Plug(cardA))
	old.run()
	ports := injected{"3b:00.0": {"dfl-port.0"}, "3b:00.0-p1": {"dfl-port.1"}}
	old.awaitSpec("the old daemon", ports)
	file := filepath.Join(old.cfg.CDIDir, "fpga.intel.com-fpga.json")
	before, err := os.Stat(file)
	old.do(err)

	next := old.successor(func(c *config.Config) { c.Mode = offer.Region })
	next.run()
	next.awaitReady("both run")
	next.awaitLine("owner.waiting", "reason:naming")
	time.Sleep(time.Second)
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("both run: the CDI spec was written again, error %v", err)
	}
	old.do(old.stop())
	next.awaitOffers("the old daemon has ended", offers{regionA: {"3b:00.0": true}})
	next.awaitSpec("the old daemon has ended", injected{"3b:00.0": {"dfl-port.0", "dfl-port.1"}})
	next.do(next.stop())
	next.awaitSpec("both have ended", nil)
}

// The mode changes for both daemons of an upgrade. They go on with the former mode until one of them has ended.
func TestModeChangesInUpgrade(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, nil)
	c.ask("")
	c.do(c.node.Plug(cardA))
	c.do(c.node.Plug(cardB))
	c.run()
	c.awaitOffers("the old daemon", bothCards["single"])
	next := c.successor(func(*config.Config) {})
	next.run()
	next.awaitReady("both run")
	next.awaitLine("owner.taken")

	c.ask("af")
	c.awaitLine("owner.waiting", "reason:settings")
	next.awaitLine("owner.waiting", "reason:settings")
	next.awaitSeries(`accelerator_owner_waiting{reason="settings"} 1`)
	c.awaitOffers("both want another mode", bothCards["single"])
	late := c.successor(func(cfg *config.Config) { cfg.Socket += "3" })
	late.run()
	late.awaitLine("owner.waiting", "reason:naming") // it has the new mode from the start
	c.do(c.stop())
	next.awaitOffers("the old daemon has ended", bothCards["af"])
	late.awaitLine("owner.taken")
	late.awaitReady("all have one mode")
	next.do(next.stop())
	late.awaitOffers("one is left", bothCards["af"])
	if diff := cmp.Diff(0, len(next.lines("owner.unavailable"))+len(late.lines("owner.unavailable"))); diff != "" {
		t.Errorf("lines owner.unavailable (-want +got):\n%s", diff)
	}
}

// A daemon that does not know the mode of its node yet, because the API server does not answer, waits for the one that
// does. It joins it when it knows the mode.
func TestModeIsKnownLate(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, nil)
	c.ask("af")
	c.do(c.node.Plug(cardB))
	c.run()
	c.awaitOffers("the old daemon", offers{afBb: {"5e:00.0": true}})
	c.api.Close()
	next := c.successor(func(*config.Config) {})
	next.run()
	next.awaitLine("owner.waiting", "reason:naming")
	next.awaitReady("the mode is not known")
	c.restartAPI()
	c.ask("af")
	next.awaitLine("owner.taken")
	c.awaitOffers("the mode is known", offers{afBb: {"5e:00.0": true}})
	c.do(c.stop())
	next.awaitOffers("the old daemon has ended", offers{afBb: {"5e:00.0": true}})
}
