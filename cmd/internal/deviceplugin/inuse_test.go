package deviceplugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

func (d *testDaemon) lines(event string) []observer.LoggedEntry {
	return d.logs.FilterField(zap.String("event", event)).All()
}

// awaitLine waits for a line with this event and all of these words.
func (d *testDaemon) awaitLine(event string, words ...string) {
	d.t.Helper()
	patient.Await(d.t, event, func() error {
		for _, line := range d.lines(event) {
			text := fmt.Sprint(line.Message, " ", line.ContextMap())
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
				return nil
			}
		}
		return fmt.Errorf("no line with %q: %v", words, d.lines(event))
	})
}

// hold makes a pod hold devices under one of our resources. It first calls Allocate, as the kubelet does.
func (d *testDaemon) hold(pod, resource string, ids ...string) {
	d.t.Helper()
	must.Value(d.kubelet.Allocate(d.t.Context(), resource, ids...))(d.t)
	d.pods.Hold("default", pod, "main", resource, ids...)
}

// If a release without annotations gave two devices to a container, each of the devices may have the nodes of both.
// That doesn't affect other devices, and once the container has ended, both are advertised again.
func TestTwoDevicesOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, nil)
	d.plug(cardA)
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.do(d.stop())
	d.do(d.kubelet.AllocatedByOldDaemon(testResource, []string{"dfl-port.0", "dfl-port.1"}, "3b:00.0", "3b:00.0-p1"))
	d.pods.Hold("default", "job", "main", testResource, "3b:00.0", "3b:00.0-p1")
	d.run()
	d.plug(cardB)
	d.await("upgraded", health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": true})
	d.pods.Release("default", "job")
	d.await("the pod has ended", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
}

// Even if the pod-resources API misbehaves, a pulled card becomes unhealthy immediately, and all other devices keep
// working.
func TestPodResourcesThatMisbehaves(t *testing.T) {
	for _, test := range []struct {
		name      string
		behaviour simkubelet.PodBehaviour
		stop      bool
		unknown   bool // the log says that holders aren't known
		want      health
	}{
		{"stalls", simkubelet.PodBehaviour{Stall: true}, false, true, health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": true}},
		{"is not there", simkubelet.PodBehaviour{}, true, true, health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": true}},
		{"reports no holders", simkubelet.PodBehaviour{Nothing: true}, false, false, health{"3b:00.0": false, "5e:00.0": true}}, // it's in the checkpoint
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, nil)
			d.plug(cardA, cardB)
			d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
			d.do(d.kubelet.AllocatedByOldDaemon(testResource, []string{"dfl-port.0"}, "3b:00.0"))
			d.pods.Hold("default", "job", "main", testResource, "3b:00.0")
			d.pods.Behave(test.behaviour)
			if test.stop {
				d.pods.Stop()
			}
			d.do(d.node.Unplug(cardA.Address))
			d.await("pulled", test.want)
			if test.unknown {
				d.awaitLine("holders.unknown")
			}
			d.do(d.node.Set(cardB.Address, 0, "errors/errors", "0x4000000000000"))
			test.want["5e:00.0"] = false
			d.await("the other card breaks", test.want)
			d.do(d.stop())
		})
	}
}

// SIGHUP applies changed device settings, and makes the daemon register again. Invalid settings don't change anything.
func TestHangupReadsTheFileAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("exclude: [3b:00.0-p1]\n")
	loader := daemon.NewLoader()
	loader.Config.File = file
	must.Succeed(t, loader.Load(os.LookupEnv))
	d := prepareDaemon(t, func(c *config.Config) { c.Exclude, c.Severity = loader.Config.Exclude, loader.Config.Severity })
	d.loader = loader
	d.run()
	d.plug(cardA)
	d.await("port 1 excluded", health{"3b:00.0": true, "3b:00.0-p1": false})

	write("exclude: [3b:00.0-p1\n")
	d.hangups <- syscall.SIGHUP
	d.awaitLine("config.refused", file)
	d.do(d.kubelet.AwaitRegistrations(t.Context(), testResource, 2))
	d.await("a broken file changes nothing", health{"3b:00.0": true, "3b:00.0-p1": false})

	write("exclude: [\"0000:3B:00.0-p0\"]\nresyncInterval: 17s\n")
	d.hangups <- syscall.SIGHUP
	d.await("port 0 excluded instead", health{"3b:00.0": false, "3b:00.0-p1": true})
	d.awaitLine("config.notice", "resync-interval", "restart")

	write("health: {severity: {port-ap6: ignored}}\n")
	d.hangups <- syscall.SIGHUP
	d.await("nothing excluded", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.do(d.node.Set(cardA.Address, 1, "errors/errors", "0x4000000000000"))
	write("")
	d.hangups <- syscall.SIGHUP
	d.await("AP6 counts again", health{"3b:00.0": true, "3b:00.0-p1": false})
}
