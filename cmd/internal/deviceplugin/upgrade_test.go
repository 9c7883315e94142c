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

// successor returns a daemon with different settings on the same node, with the same kubelet and pods, as in a surge
// upgrade. It hasn't been started yet.
func (d *testDaemon) successor(adjust func(*config.Config)) *testDaemon {
	d.t.Helper()
	next := *d
	next.cfg.Socket += "2" // each pod has its own
	adjust(&next.cfg)
	next.hangups, next.loader = make(chan os.Signal), daemon.NewLoader()
	next.loader.Config = next.cfg
	return &next
}

// awaitReady waits until the daemon is alive and ready.
func (d *testDaemon) awaitReady() {
	d.t.Helper()
	d.eventually("/healthz", "200 OK")
	d.eventually("/readyz", "200 OK")
}

// If an upgrade changes device names, the new daemon is ready while the old one is still running, but doesn't advertise
// anything. Once the old daemon has exited, the new one advertises the free devices. A held device stays with its pod.
// If an upgrade doesn't change the names, both daemons advertise the devices, which never disappear.
func TestUpgradeWithOtherNames(t *testing.T) {
	card := resourceLists{testResource: {"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true}}
	for _, test := range []struct {
		name   string
		adjust func(*config.Config)
		holds  string // the device that the pod holds; "": none
		want   resourceLists
	}{
		{"mode", func(c *config.Config) { c.Mode = offer.AF }, "3b:00.0-p1",
			resourceLists{testResource: {"3b:00.0-p1": false}, afAa: {"3b:00.0": true}, afBb: {"5e:00.0": true}}},
		{"mode with other units", func(c *config.Config) { c.Mode = offer.Region }, "3b:00.0-p1",
			resourceLists{testResource: {"3b:00.0-p1": false}, regionA: {"3b:00.0": false}, regionB: {"5e:00.0": true}}},
		{"resource name", func(c *config.Config) { c.ResourceName = "example.com/card" }, "", // only free ones
			resourceLists{"example.com/card": {"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true}}},
		{"rules", func(c *config.Config) {
			c.Resources = []offer.Rule{{Resource: "example.com/nlb", Match: offer.Match{AFUID: cardB.AFUID}}}
		}, "3b:00.0-p1", resourceLists{testResource: {"3b:00.0": true, "3b:00.0-p1": true}, "example.com/nlb": {"5e:00.0": true}}},
		{"same names", func(c *config.Config) { c.AllocationPolicy = "spread" }, "3b:00.0-p1", card},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			old := prepareDaemon(t, nil)
			old.timing = nil // the intervals used in production
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
			// A pod gets a device while both daemons are running.
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

// Two daemons never take turns writing the CDI spec. The daemon that is waiting leaves the other daemon's file alone,
// and replaces it when it starts advertising the devices.
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

// During an upgrade, the mode changes for both daemons. They keep the old mode until one of them has exited.
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
	late.awaitLine("owner.waiting", "reason:naming") // it uses the new mode from the start
	c.do(c.stop())
	next.awaitLists("the old daemon has ended", bothCards["af"])
	late.awaitLine("owner.taken")
	late.awaitReady()
	next.do(next.stop())
	late.awaitLists("one is left", bothCards["af"])
	compare.Values(t, "lines owner.unavailable", 0, len(next.lines("owner.unavailable"))+len(late.lines("owner.unavailable")))
}

// A daemon that doesn't know its node's mode yet, because the API server doesn't respond, waits for the daemon that
// does. Once it knows the mode, it joins that daemon.
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
