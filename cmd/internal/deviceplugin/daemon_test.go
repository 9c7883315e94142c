package deviceplugin_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

const testResource = "b-com.com/accelerator"

var (
	cardA = simnode.Card{Address: "0000:3b:00.0", Ports: 2, AFUID: "d8424dc4a4a3c413f89e433683f9040b", InterfaceID: "69528db6eb31577a8c3668f9faa081f6"}
	cardB = simnode.Card{Address: "0000:5e:00.0", Ports: 1, NUMANode: 1, AFUID: "f7df405cbd7acf7222f144b0b93acd18", InterfaceID: "9346116da52d5ca8b06aa9a389ef7c8d"}
)

// testDaemon is the whole daemon on a simulated node with a simulated kubelet. Everything else is real.
type testDaemon struct {
	t       *testing.T
	cfg     config.Config
	node    *simnode.Node
	kubelet *simkubelet.Kubelet
	pods    *simkubelet.PodResources
	loader  *config.Loader
	timing  func(*inventory.Config, *server.Config)
	hangups chan os.Signal
	logs    *observer.ObservedLogs
	stop    func() error // stops the daemon; calling it again does nothing
}

// startDaemon starts a daemon with short intervals.
func startDaemon(t *testing.T, adjust func(*config.Config)) *testDaemon {
	t.Helper()
	d := prepareDaemon(t, adjust)
	d.run()
	return d
}

// prepareDaemon is like startDaemon, but doesn't start the daemon yet.
func prepareDaemon(t *testing.T, adjust func(*config.Config)) *testDaemon {
	t.Helper()
	dir := cmdtest.ShortDir(t)
	node := must.Value(simnode.New(dir))(t)
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot, cfg.HostDevRoot = node.Sys, node.Dev, "/dev"
	cfg.KubeletDir, cfg.PodResourcesSocket, cfg.HTTPAddress = filepath.Join(dir, "kubelet"), filepath.Join(dir, "pods.sock"), "127.0.0.1:0"
	cfg.Socket, cfg.StateDir = filepath.Join(dir, "daemon.sock"), filepath.Join(dir, "state")
	cfg.RecoveryHold, cfg.FlapLimit = 0, 0
	if adjust != nil {
		adjust(&cfg)
	}
	d := &testDaemon{t: t, cfg: cfg, node: node, hangups: make(chan os.Signal), loader: daemon.NewLoader()}
	d.loader.Config = cfg
	d.timing = func(i *inventory.Config, _ *server.Config) { i.HoldersInterval = 50 * time.Millisecond }
	d.startKubelet()
	t.Cleanup(func() { d.kubelet.Stop() })
	d.startPods()
	t.Cleanup(func() { d.pods.Stop() })
	return d
}

func (d *testDaemon) run() {
	core, logs := eventtest.Observed(d.t)
	d.logs = logs
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan error, 1)
	s := deviceplugin.New("test", d.cfg, zap.New(core), metrics.New("test"), d.timing)
	s.Hangups, s.Loader = d.hangups, d.loader
	go func() { ended <- s.Serve(ctx) }()
	var once bool
	d.stop = func() error {
		if once {
			return nil
		}
		once = true
		cancel()
		limit := time.NewTimer(patient.Limit)
		defer limit.Stop()
		select {
		case err := <-ended:
			return err
		case <-limit.C:
			return fmt.Errorf("daemon did not end within %s", patient.Limit)
		}
	}
	d.t.Cleanup(func() { compare.NoError(d.t, "daemon", d.stop()) })
}

func (d *testDaemon) startKubelet() {
	d.t.Helper()
	// The kubelet must outlive the test's context, which is canceled before the cleanups run.
	d.kubelet = must.Value(simkubelet.Start(context.WithoutCancel(d.t.Context()), d.cfg.KubeletDir, simkubelet.Behaviour{}))(d.t)
	d.kubelet.Follow(soundLists(d.t))
	if d.pods != nil {
		d.pods.Join(d.kubelet)
	}
}

func (d *testDaemon) startPods() {
	d.t.Helper()
	d.pods = must.Value(simkubelet.StartPodResources(context.WithoutCancel(d.t.Context()), d.cfg.PodResourcesSocket))(d.t)
	d.pods.Join(d.kubelet)
}

func (d *testDaemon) restartKubelet() {
	d.t.Helper()
	d.kubelet.Stop()
	d.startKubelet()
}

// health maps the IDs of the devices in a list to whether they are healthy.
type health map[string]bool

func told(l simkubelet.List) health {
	h := make(health, len(l.Devices))
	for _, d := range l.Devices {
		h[d.ID] = d.Healthy
	}
	return h
}

func (d *testDaemon) await(when string, want health) simkubelet.List {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patient.Limit)
	defer cancel()
	list, err := d.kubelet.AwaitList(ctx, testResource, func(l simkubelet.List) bool { return maps.Equal(told(l), want) })
	if err != nil {
		d.t.Fatalf("%s: list of the kubelet: found %v, want %v: %v", when, told(list), want, err)
	}
	return list
}

// url returns the URL of one of the running daemon's pages.
func (d *testDaemon) url(path string) string {
	d.t.Helper()
	d.awaitLine("http.served")
	return "http://" + d.lines("http.served")[0].ContextMap()["address"].(string) + path
}

func (d *testDaemon) do(err error) {
	d.t.Helper()
	must.Succeed(d.t, err)
}

func (d *testDaemon) plug(cards ...simnode.Card) {
	d.t.Helper()
	for _, card := range cards {
		d.do(d.node.Plug(card))
	}
}

// holdAndSee gives a device to the pod job, and waits until the daemon has noticed.
func (d *testDaemon) holdAndSee(resource, id string) {
	d.t.Helper()
	d.hold("job", resource, id)
	d.awaitLine("device.held", "default/job/main")
}

// set changes the settings of a daemon that isn't running.
func (d *testDaemon) set(change func(*config.Config)) {
	change(&d.cfg)
	d.loader.Config = d.cfg
}

// overlapAtMost is how long a device that moves may be healthy in two lists. The kubelet reads each list from its own
// stream, and on a busy machine it may be late reading the older one.
const overlapAtMost = 10 * time.Second

// soundLists returns a function that fails the test if a kubelet's lists contradict each other at any time.
func soundLists(t testing.TB) func(map[string]simkubelet.List) {
	since := map[string]time.Time{} // by ID, for devices that are healthy in two lists
	return func(lists map[string]simkubelet.List) {
		healthyOn := map[string]int{} // number of lists, by ID
		for resource, list := range lists {
			if !slices.IsSortedFunc(list.Devices, func(a, b simkubelet.Device) int { return strings.Compare(a.ID, b.ID) }) {
				t.Errorf("list of %s is not sorted: %v", resource, list.Devices)
			}
			seen := map[string]bool{}
			for _, d := range list.Devices {
				if seen[d.ID] {
					t.Errorf("%s is on the list of %s twice", d.ID, resource)
				}
				seen[d.ID] = true
				if d.Healthy {
					healthyOn[d.ID]++
				}
			}
		}
		for id, n := range healthyOn {
			if _, known := since[id]; n > 1 && !known {
				since[id] = time.Now()
			}
		}
		for id, at := range since {
			lasted := time.Since(at)
			if lasted > overlapAtMost {
				t.Errorf("%s was healthy on two lists for %s, want at most %s", id, lasted, overlapAtMost)
			}
			if healthyOn[id] < 2 {
				delete(since, id)
			}
		}
	}
}

// resourceLists contains all resources' lists in a short form.
type resourceLists map[string]health

// awaitLists waits until these are the latest lists of all resources with an open stream.
func (d *testDaemon) awaitLists(when string, want resourceLists) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patient.Limit)
	defer cancel()
	var got resourceLists
	_, err := d.kubelet.AwaitLists(ctx, func(lists map[string]simkubelet.List) bool {
		got = resourceLists{}
		for resource, list := range lists {
			got[resource] = told(list)
		}
		return maps.EqualFunc(got, want, maps.Equal)
	})
	if err != nil {
		d.t.Fatalf("%s: %v; lists (-want +got):\n%s", when, err, cmp.Diff(want, got))
	}
}

// The daemon doesn't leave goroutines, descriptors or sockets behind when it exits.
func TestNothingIsLeft(t *testing.T) {
	settle := func() (goroutines, fds int) {
		runtime.GC()
		entries := must.Value(os.ReadDir("/proc/self/fd"))(t)
		return runtime.NumGoroutine(), len(entries)
	}
	warm := startDaemon(t, nil) // so that goroutines and descriptors that the runtime and the libraries keep aren't counted
	warm.plug(cardB)
	warm.await("plugged", health{"5e:00.0": true})
	warm.do(warm.stop())
	warm.kubelet.Stop()
	warm.pods.Stop()

	goroutines, fds := settle()
	for range 5 {
		d := startDaemon(t, nil)
		d.plug(cardA)
		d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
		d.do(d.stop())
		d.kubelet.Stop()
		d.pods.Stop()
		d.do(os.Remove(filepath.Join(d.cfg.KubeletDir, simkubelet.Checkpoint)))
		left, err := filepath.Glob(d.cfg.KubeletDir + "/*")
		if err != nil || len(left) != 0 {
			t.Errorf("left in the kubelet's directory: %v %v", left, err)
		}
	}
	patient.Await(t, "the daemons have ended", func() error {
		if g, f := settle(); g > goroutines || f > fds {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines and %d descriptors, were %d and %d:\n%s", g, f, goroutines, fds, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

// The resource names that Intel's plugin uses for the test cards' interfaces (A, B) and AFUs (a, b), computed by hand:
// base64url of both IDs.
const (
	afAa    = "fpga.intel.com/af-695.d84.aVKNtusxV3qMNmj5-qCB9thCTcSko8QT-J5DNoP5BAs"
	afAb    = "fpga.intel.com/af-695.f7d.aVKNtusxV3qMNmj5-qCB9vffQFy9es9yIvFEsLk6zRg"
	afBb    = "fpga.intel.com/af-934.f7d.k0YRbaUtXKiwaqmjie98jfffQFy9es9yIvFEsLk6zRg"
	regionA = "fpga.intel.com/region-69528db6eb31577a8c3668f9faa081f6"
	regionB = "fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d"
)

// inMode is like startDaemon, but for the given mode and with shorter server timeouts.
func inMode(t *testing.T, mode string, adjust func(*config.Config)) *testDaemon {
	t.Helper()
	d := prepareDaemon(t, func(c *config.Config) {
		c.Mode = mode
		if adjust != nil {
			adjust(c)
		}
	})
	d.shorten()
	d.run()
	return d
}

// shorten sets short intervals.
func (d *testDaemon) shorten() {
	d.timing = func(i *inventory.Config, s *server.Config) {
		i.HoldersInterval = 20 * time.Millisecond
		s.RetireAfter = 200 * time.Millisecond
	}
}

// awaitAsked waits until the kubelet has answered a request for holders that was sent after this call.
func (d *testDaemon) awaitAsked() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patient.Limit)
	defer cancel()
	d.do(d.pods.AwaitAsked(ctx, d.pods.Asked()+2)) // there is only one request at a time
}

// awaitRefused waits until Allocate returns an error with this text for a device that isn't advertised.
func (d *testDaemon) awaitRefused(when, resource, id, why string) {
	d.t.Helper()
	patient.Await(d.t, when, func() error {
		if _, err := d.kubelet.Allocate(d.t.Context(), resource, id); err == nil || !strings.Contains(err.Error(), why) {
			return fmt.Errorf("allocate of %s %s: %v, want an error with %q", resource, id, err, why)
		}
		return nil
	})
}
