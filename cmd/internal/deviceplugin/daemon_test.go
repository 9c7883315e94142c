package deviceplugin_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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

// testDaemon is the whole daemon on a simulated node, with a simulated kubelet. All other parts are real.
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
	stop    func() error // ends the daemon; a second call does nothing
}

// startDaemon starts a daemon with short intervals.
func startDaemon(t *testing.T, adjust func(*config.Config)) *testDaemon {
	t.Helper()
	d := prepareDaemon(t, adjust)
	d.run()
	return d
}

// prepareDaemon is startDaemon without starting the daemon.
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
	var err error
	// The kubelet outlives the test's context, which ends before its cleanups.
	d.kubelet, err = simkubelet.Start(context.WithoutCancel(d.t.Context()), d.cfg.KubeletDir, simkubelet.Behaviour{})
	must.Succeed(d.t, err)
	d.kubelet.Follow(soundLists(d.t))
	if d.pods != nil {
		d.pods.Join(d.kubelet)
	}
}

func (d *testDaemon) startPods() {
	d.t.Helper()
	var err error
	d.pods, err = simkubelet.StartPodResources(context.WithoutCancel(d.t.Context()), d.cfg.PodResourcesSocket)
	must.Succeed(d.t, err)
	d.pods.Join(d.kubelet)
}

func (d *testDaemon) restartKubelet() {
	d.t.Helper()
	d.kubelet.Stop()
	d.startKubelet()
}

// health maps the ids of the devices in a list to their health; true: healthy.
type health map[string]bool

func told(l simkubelet.List) health {
	h := make(health, len(l.Devices))
	for _, d := range l.Devices {
		h[d.ID] = d.Healthy
	}
	return h
}

// await blocks until the kubelet's newest list is want.
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

// url returns the address of a page of the running daemon.
func (d *testDaemon) url(path string) string {
	d.t.Helper()
	d.awaitLine("http.served")
	return "http://" + d.lines("http.served")[0].ContextMap()["address"].(string) + path
}

// do fails the test if err is not nil.
func (d *testDaemon) do(err error) {
	d.t.Helper()
	must.Succeed(d.t, err)
}

// plug plugs cards in.
func (d *testDaemon) plug(cards ...simnode.Card) {
	d.t.Helper()
	for _, card := range cards {
		d.do(d.node.Plug(card))
	}
}

// holdAndSee gives a device to the pod job, and blocks until the daemon has seen that.
func (d *testDaemon) holdAndSee(resource, id string) {
	d.t.Helper()
	d.hold("job", resource, id)
	d.awaitLine("device.held", "default/job/main")
}

// set changes the settings of a daemon that does not run.
func (d *testDaemon) set(change func(*config.Config)) {
	change(&d.cfg)
	d.loader.Config = d.cfg
}

// makeFIFO replaces a file by a pipe without a writer, so that opening it for reading blocks. release ends
// the block and restores the file.
func (d *testDaemon) makeFIFO(path string) (release func()) {
	d.t.Helper()
	content, err := os.ReadFile(path)
	d.do(err)
	d.do(syscall.Mkfifo(path+".fifo", 0o600))
	d.do(os.Rename(path+".fifo", path))
	return func() {
		fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
		d.do(err)
		d.do(os.WriteFile(path+".new", content, 0o600))
		d.do(os.Rename(path+".new", path))
		syscall.Close(fd)
	}
}
