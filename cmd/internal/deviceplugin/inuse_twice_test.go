package deviceplugin_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// The tests in this file try to get a device for a second pod while a container has it. Each of these attempts once
// succeeded.

// refuses checks that the daemon doesn't allocate a device during this time, under any name except held. The kubelet
// itself doesn't allocate a device twice under the same name.
func (d *testDaemon) refuses(lasts time.Duration, when, id, held string) {
	d.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(lasts); time.Now().Before(end); <-again.C {
		for resource := range d.lists() {
			if resource == held {
				continue
			}
			if _, err := d.kubelet.Allocate(d.t.Context(), resource, id); err == nil {
				d.t.Fatalf("%s: a container has %s as %s, and a second one got it as %s", when, id, held, resource)
			}
		}
	}
}

// startedAgo makes it look as if the kubelet was started this long ago.
func (d *testDaemon) startedAgo(age time.Duration) {
	d.t.Helper()
	at := time.Now().Add(-age)
	d.do(os.Chtimes(d.cfg.PodResourcesSocket, at, at))
}

// restartBlind restarts the kubelet while its API server is down, so that it answers but doesn't list any pods. It
// seems to have been running for nine of the ten seconds after which the daemon can rely on its answers.
func (d *testDaemon) restartBlind() {
	d.t.Helper()
	d.restartKubelet()
	d.pods.Behave(simkubelet.PodBehaviour{Nothing: true})
	d.startedAgo(9 * time.Second)
}

const (
	untilSettled = 1200 * time.Millisecond // from restartBlind until the kubelet has run for ten seconds, and a bit longer
	untilEnded   = time.Second             // enough for many answers that show the end of a container
)

// listDaemon makes the kubelet list the daemon's own pod, as for a DaemonSet.
func (d *testDaemon) listDaemon() {
	d.t.Helper()
	d.pods.Hold("kube-system", must.Value(os.Hostname())(d.t), "main", "example.com/other", "0")
}

// inPodOrNot runs a test for a daemon in a pod and for a daemon outside of a pod. The node always has another pod,
// because a kubelet that no longer lists any of the API server's pods counts as one that doesn't know its pods.
func inPodOrNot(t *testing.T, adjust func(*config.Config), run func(*testDaemon)) {
	for name, isPod := range map[string]bool{"in a pod": true, "no pod": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := prepareDaemon(t, adjust)
			d.shorten()
			if d.pods.Hold("kube-system", "proxy", "main", "example.com/other", "1"); isPod {
				d.listDaemon()
			}
			d.run()
			run(d)
		})
	}
}

// The daemon is restarted with a different name for its resources while a pod has a device under the old name.
func TestHeldUnderAFormerName(t *testing.T) {
	for _, test := range []struct {
		name, mode, former string
		change             func(*config.Config)
	}{
		{"another resource", "single", testResource, func(c *config.Config) { c.ResourceName = "example.com/fpga" }},
		{"another namespace", "af", afBb, func(c *config.Config) { c.ResourceNamespace = "fpga.example.com" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := inMode(t, test.mode, nil)
			d.plug(cardB)
			d.awaitLists("plugged", resourceLists{test.former: {"5e:00.0": true}})
			d.holdAndSee(test.former, "5e:00.0")
			d.do(d.stop())
			d.set(test.change)
			d.run()
			d.awaitLists("another name", resourceLists{test.former: {"5e:00.0": false}})
			d.refuses(untilEnded, "another name", "5e:00.0", test.former)
		})
	}
}

// The daemon is restarted as in TestHeldUnderAFormerName, but the kubelet's checkpoint is missing or can't be read when
// it starts. The kubelet still lists the pod.
func TestHeldUnderAFormerNameWithoutCheckpoint(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"missing":    func(string) error { return nil },
		"unreadable": func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := prepareDaemon(t, func(c *config.Config) { c.TombstoneGrace = 500 * time.Millisecond })
			d.shorten()
			d.run()
			d.plug(cardA)
			d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
			d.holdAndSee(testResource, "3b:00.0")
			d.do(d.stop())
			path := filepath.Join(d.cfg.KubeletDir, simkubelet.Checkpoint)
			d.do(os.Remove(path))
			d.do(damage(path))
			d.pods.Hold("default", "nic", "main", "example.com/nic", "0001:af:00.0") // another plugin's, which keeps its resource
			d.set(func(c *config.Config) { c.ResourceName = "example.com/fpga" })
			d.run()
			d.refuses(d.cfg.TombstoneGrace+untilEnded, "another name", "3b:00.0", testResource)
			d.awaitLists("another name", resourceLists{testResource: {"3b:00.0": false}, "example.com/fpga": {"3b:00.0-p1": true}})
		})
	}
}

// A daemon allocates a device and exits. The next daemon uses a different name, and starts before the kubelet has
// recorded the allocation. With the intervals used in production, the device is withdrawn as soon as the kubelet has
// recorded it.
func TestHeldByAnAllocationThatIsRecordedLate(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, nil)
	d.timing = nil
	d.set(func(c *config.Config) { c.ResourceName = "example.com/fpga" })
	d.run()
	d.plug(cardB)
	d.awaitLists("plugged", resourceLists{"example.com/fpga": {"5e:00.0": true}})
	d.do(d.kubelet.AllocatedByOldDaemon(testResource, []string{"dfl-port.0"}, "5e:00.0"))
	d.pods.Hold("default", "job", "main", testResource, "5e:00.0")
	d.awaitLists("recorded", resourceLists{"example.com/fpga": {"5e:00.0": false}}) // within 20 s
}

// A port that is about to move is held. The kubelet restarts and doesn't know its pods.
func TestPortMovesWhileTheKubeletKnowsNoPods(t *testing.T) {
	inPodOrNot(t, func(c *config.Config) { c.Mode = "af" }, func(d *testDaemon) {
		d.plug(cardA)
		d.awaitLists("card in", unmoved)
		d.holdAndSee(afAa, "3b:00.0-p1")
		d.reprogram(cardB.AFUID)
		d.awaitLists("another AFU", moving)
		d.awaitRefused("another AFU", afAa, "3b:00.0-p1", "replaced-in-use")
		d.restartBlind()
		d.refuses(untilSettled+untilEnded, "the kubelet knows no pods", "3b:00.0-p1", afAa)
		d.pods.Behave(simkubelet.PodBehaviour{})
		d.awaitAsked()
		d.awaitLists("the kubelet knows its pods", moving)
	})
}

// A card gets the node number of a card that was pulled while in use. The kubelet restarts and doesn't know its pods.
func TestNodeNumberInUseWhileTheKubeletKnowsNoPods(t *testing.T) {
	inPodOrNot(t, nil, func(d *testDaemon) {
		pulled := cardA
		pulled.Ports = 1
		d.plug(pulled)
		d.await("plugged", health{"3b:00.0": true})
		d.holdAndSee(testResource, "3b:00.0")
		d.do(d.node.Unplug(pulled.Address))
		d.await("pulled", health{"3b:00.0": false})
		d.plug(cardB)
		d.await("another card has the number", health{"3b:00.0": false, "5e:00.0": false})
		d.awaitRefused("another card has the number", testResource, "5e:00.0", "node-in-use")
		d.restartBlind()
		d.refuses(untilSettled+untilEnded, "the kubelet knows no pods", "5e:00.0", "")
		d.pods.Behave(simkubelet.PodBehaviour{})
		d.awaitAsked()
		d.await("the kubelet knows its pods", health{"3b:00.0": false, "5e:00.0": false})
	})
}

// The kubelet is stopped for longer than the grace period. In that time, containers can neither end nor get a device.
func TestKubeletStoppedForTheGraceTime(t *testing.T) {
	inPodOrNot(t, func(c *config.Config) { c.Mode, c.TombstoneGrace = "af", 500*time.Millisecond }, func(d *testDaemon) {
		d.plug(cardA)
		d.awaitLists("card in", unmoved)
		d.holdAndSee(afAa, "3b:00.0-p1")
		d.reprogram(cardB.AFUID)
		d.awaitLists("another AFU", moving)
		d.awaitRefused("another AFU", afAa, "3b:00.0-p1", "replaced-in-use")
		d.kubelet.Stop()
		d.pods.Stop()
		d.awaitLine("holders.unknown", "pod-resources")
		patient.Elapse(d.t, 2*d.cfg.TombstoneGrace)
		d.startPods()
		d.listDaemon()
		d.pods.Hold("default", "job", "main", afAa, "3b:00.0-p1")
		d.startKubelet()
		d.awaitLists("the kubelet is back", moving)
		d.refuses(untilEnded, "the kubelet is back", "3b:00.0-p1", afAa)
	})
}

// The node used to run the DRA driver, and a pod still has a claim. The daemon, which isn't running in a pod, is
// started together with the kubelet, whose first answers don't include the pod.
func TestClaimThatAFreshKubeletDoesNotName(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, nil)
	d.plug(cardB)
	d.pods.HoldClaim("default", "job", "main", "claim", draname.Driver, draname.Device("5e:00.0"))
	d.pods.Behave(simkubelet.PodBehaviour{Nothing: true})
	d.startedAgo(3 * time.Second)
	driver := owner.New(d.cfg.StateDir, control.DRA, zap.NewNop()) // the driver that prepared the claim
	d.do(driver.Take(t.Context(), func() owner.Naming { return 1 }))
	driver.Leave(t.Context(), func(context.Context) error { return nil })
	d.run()
	d.await("started", health{"5e:00.0": false})
	d.refuses(untilSettled, "the kubelet knows no pods", "5e:00.0", "")
	d.pods.Behave(simkubelet.PodBehaviour{})
	d.refuses(untilEnded, "the kubelet knows its pods", "5e:00.0", "")
	d.pods.Release("default", "job")
	d.await("the pod has ended", health{"5e:00.0": true})
}

// The daemon is restarted in a different mode, together with the kubelet, which doesn't know its pods.
func TestModeChangesWhileTheKubeletKnowsNoPods(t *testing.T) {
	t.Parallel()
	d := inMode(t, "af", nil)
	d.plug(cardA)
	d.awaitLists("card in", unmoved)
	d.holdAndSee(afAa, "3b:00.0-p1")
	d.do(d.stop())
	d.set(func(c *config.Config) { c.Mode = "single" })
	d.restartBlind()
	d.run()
	d.refuses(untilSettled+untilEnded, "another mode", "3b:00.0-p1", afAa)
	d.pods.Behave(simkubelet.PodBehaviour{})
	d.pods.Release("default", "job")
	d.awaitLists("the pod has ended", resourceLists{testResource: {"3b:00.0": true, "3b:00.0-p1": true}})
}

// An init container has a port for longer than the grace period. It only ever appears in the kubelet's checkpoint,
// never in pod-resources.
func TestInitContainerKeepsItsPort(t *testing.T) {
	for name, restarted := range map[string]bool{"one daemon": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := inMode(t, "af", func(c *config.Config) { c.TombstoneGrace = 500 * time.Millisecond })
			d.plug(cardA)
			d.awaitLists("card in", unmoved)
			must.Value(d.kubelet.Allocate(t.Context(), afAa, "3b:00.0-p1"))(t)
			if restarted {
				d.do(d.stop())
				d.run()
				d.awaitLists("restarted", unmoved)
			}
			d.reprogram(cardB.AFUID)
			d.awaitLists("another AFU", moving)
			d.awaitRefused("another AFU", afAa, "3b:00.0-p1", "replaced-in-use")
			d.refuses(d.cfg.TombstoneGrace+untilEnded, "the init container runs", "3b:00.0-p1", afAa)
			d.kubelet.End(afAa, "3b:00.0-p1")
			d.awaitLists("the init container has ended", moved)
		})
	}
}

// Card A's lists in af mode while port 1 gets a different AFU.
var (
	unmoved = resourceLists{afAa: {"3b:00.0": true, "3b:00.0-p1": true}}
	moving  = resourceLists{afAa: {"3b:00.0": true, "3b:00.0-p1": false}}
	moved   = resourceLists{afAa: {"3b:00.0": true}, afAb: {"3b:00.0-p1": true}}
)

// reprogram gives card A's port 1 a different AFU.
func (d *testDaemon) reprogram(afu string) {
	d.t.Helper()
	d.do(d.node.Reprogram(cardA.Address, 1, afu))
}
