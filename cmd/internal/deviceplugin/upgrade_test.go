package deviceplugin_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// successor is a daemon with other settings on the same node, with the same kubelet and pods, as in an upgrade with
// surge. It is not started yet.
func (d *testDaemon) successor(adjust func(*config.Config)) *testDaemon {
	d.t.Helper()
	next := *d
	next.cfg.Socket += "2" // each pod has its own
	adjust(&next.cfg)
	next.hangups, next.loader = make(chan os.Signal), daemon.NewLoader()
	next.loader.Config = next.cfg
	return &next
}

// awaitReady blocks until the daemon is alive and ready.
func (d *testDaemon) awaitReady() {
	d.t.Helper()
	d.eventually("/healthz", "200 OK")
	d.eventually("/readyz", "200 OK")
}

// In an upgrade that changes the names of devices, the new daemon is ready while the old one runs, but advertises
// nothing. When the old daemon has ended, the new one advertises the free devices. A held device stays with its pod. In
// an upgrade that does not change the names, both daemons advertise the devices, which are never away.
func TestUpgradeWithOtherNames(t *testing.T) {
	card := resourceLists{testResource: {"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true}}
	for _, test := range []struct {
		name   string
		adjust func(*config.Config)
		holds  string // the pod holds this device; "": none
		want   resourceLists
	}{
		{"mode", func(c *config.Config) { c.Mode = offer.AF }, "3b:00.0-p1",
			resourceLists{testResource: {"3b:00.0-p1": false}, afAa: {"3b:00.0": true}, afBb: {"5e:00.0": true}}},
		{"mode with other units", func(c *config.Config) { c.Mode = offer.Region }, "3b:00.0-p1",
			resourceLists{testResource: {"3b:00.0-p1": false}, regionA: {"3b:00.0": false}, regionB: {"5e:00.0": true}}},
		{"resource name", func(c *config.Config) { c.ResourceName = "example.com/card" }, "", // free ones only
			resourceLists{"example.com/card": {"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true}}},
		{"rules", func(c *config.Config) {
			c.Resources = []offer.Rule{{Resource: "example.com/nlb", Match: offer.Match{AFUID: cardB.AFUID}}}
		}, "3b:00.0-p1", resourceLists{testResource: {"3b:00.0": true, "3b:00.0-p1": true}, "example.com/nlb": {"5e:00.0": true}}},
		{"same names", func(c *config.Config) { c.AllocationPolicy = "spread" }, "3b:00.0-p1", card},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			old := prepareDaemon(t, nil)
			old.timing = nil // the intervals of production
			old.plug(cardA, cardB)
			old.run()
			old.awaitLists("the old daemon", card)
			same := test.name == "same names"

			next := old.successor(test.adjust)
			next.run()
			next.awaitReady()
			if !same {
				next.awaitLine("owner.waiting", "reason:naming")
				next.awaitSeries(`accelerator_owner_waiting{reason="naming"} 1`)
			}
			// A pod gets a device while both run.
			if test.holds != "" {
				old.hold("job", testResource, test.holds)
			}
			sound, away := soundLists(t), false
			old.kubelet.Follow(func(lists map[string]simkubelet.List) {
				sound(lists)
				away = away || len(lists) != 1 || !maps.Equal(told(lists[testResource]), card[testResource])
			})
			patient.Elapse(t, 300*time.Millisecond)
			if !same {
				old.kubelet.Follow(sound)
			}
			old.do(old.stop())
			next.awaitLists("the old daemon has ended", test.want)
			next.awaitReady()
			if old.kubelet.Follow(nil); away {
				t.Error("the lists have changed while the old daemon ran, or although the names did not change")
			}
			if test.holds != "" {
				old.pods.Release("default", "job")
			}
			next.do(next.stop())
		})
	}
}

// Two daemons never write the CDI spec in turn. The daemon that waits leaves the other daemon's file as it is, and
// replaces it when it advertises the devices.
func TestUpgradeWithOtherNamesAndCDI(t *testing.T) {
	t.Parallel()
	old := prepareDaemon(t, withCDI(t))
	old.timing = nil
	old.plug(cardA)
	old.run()
	ports := injected{"3b:00.0": {"dfl-port.0"}, "3b:00.0-p1": {"dfl-port.1"}}
	old.awaitSpec("the old daemon", ports)
	file := filepath.Join(old.cfg.CDIDir, "fpga.intel.com-fpga.json")
	before := must.Value(os.Stat(file))(t)

	next := old.successor(func(c *config.Config) { c.Mode = offer.Region })
	next.run()
	next.awaitReady()
	next.awaitLine("owner.waiting", "reason:naming")
	patient.Elapse(t, 300*time.Millisecond)
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("both run: the CDI spec was written again, error %v", err)
	}
	old.do(old.stop())
	next.awaitLists("the old daemon has ended", resourceLists{regionA: {"3b:00.0": true}})
	next.awaitSpec("the old daemon has ended", injected{"3b:00.0": {"dfl-port.0", "dfl-port.1"}})
	next.do(next.stop())
	next.awaitSpec("both have ended", nil)
}

// The mode changes for both daemons of an upgrade. They keep the old mode until one of them has ended.
func TestModeChangesInUpgrade(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, nil)
	c.ask("")
	c.plug(cardA, cardB)
	c.run()
	c.awaitLists("the old daemon", bothCards["single"])
	next := c.successor(func(*config.Config) {})
	next.run()
	next.awaitReady()
	next.awaitLine("owner.taken")

	c.ask("af")
	c.awaitLine("owner.waiting", "reason:settings")
	next.awaitLine("owner.waiting", "reason:settings")
	next.awaitSeries(`accelerator_owner_waiting{reason="settings"} 1`)
	c.awaitLists("both want another mode", bothCards["single"])
	late := c.successor(func(cfg *config.Config) { cfg.Socket += "3" })
	late.run()
	late.awaitLine("owner.waiting", "reason:naming") // it has the new mode from the start
	c.do(c.stop())
	next.awaitLists("the old daemon has ended", bothCards["af"])
	late.awaitLine("owner.taken")
	late.awaitReady()
	next.do(next.stop())
	late.awaitLists("one is left", bothCards["af"])
	compare.Values(t, "lines owner.unavailable", 0, len(next.lines("owner.unavailable"))+len(late.lines("owner.unavailable")))
}

// A daemon that does not know the mode of its node yet, because the API server does not answer, waits for the daemon
// that does. When it knows the mode, it joins that daemon.
func TestModeIsKnownLate(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, nil)
	c.ask("af")
	c.plug(cardB)
	c.run()
	c.awaitLists("the old daemon", resourceLists{afBb: {"5e:00.0": true}})
	c.down()
	next := c.successor(func(*config.Config) {})
	next.run()
	next.awaitLine("owner.waiting", "reason:naming")
	next.awaitReady()
	c.api.UseFault(nil)
	c.ask("af")
	next.awaitLine("owner.taken")
	c.awaitLists("the mode is known", resourceLists{afBb: {"5e:00.0": true}})
	c.do(c.stop())
	next.awaitLists("the old daemon has ended", resourceLists{afBb: {"5e:00.0": true}})
}
