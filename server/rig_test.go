package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

const resource = "b-com.com/accelerator"

// testTimeout limits every wait in a test.
const testTimeout = patient.Limit

// pollOften is the poll interval that most tests use.
const pollOften = 50 * time.Millisecond

// devices is an inventory whose snapshots are set by the test.
type devices struct {
	mu         sync.Mutex
	snapshot   inventory.Snapshot
	stale      chan struct{}
	generation uint64 // of the snapshots that follow
}

func (d *devices) Latest() (inventory.Snapshot, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshot, d.stale
}

// set publishes a snapshot of these devices, which must be sorted by ID.
func (d *devices) set(list ...*inventory.Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshot = inventory.Snapshot{Version: d.snapshot.Version + 1, Devices: list, Generation: d.generation, Hinted: time.Now()}
	close(d.stale)
	d.stale = make(chan struct{})
}

func port(id string) *inventory.Device {
	return &inventory.Device{ID: id, OfferedAs: resource, Family: "dfl", Facts: inventory.Facts{NUMANode: -1, Nodes: []string{"dfl-port." + id}}}
}

// ports returns n healthy devices, sorted by ID.
func ports(n int) []*inventory.Device {
	list := make([]*inventory.Device, n)
	for i := range list {
		list[i] = port(fmt.Sprintf("%04x", i))
	}
	return list
}

func sick(id string, reasons ...string) *inventory.Device {
	d := port(id)
	d.Health, d.Reasons = inventory.Unhealthy, reasons
	return d
}

// rig is the server under test with its directory and log.
type rig struct {
	testing.TB
	*server.Server
	ctx     context.Context // done after testTimeout
	cfg     server.Config
	devices *devices
	logs    *observer.ObservedLogs

	mu     sync.Mutex
	logged chan struct{} // closed and replaced at each log line
	stop   func()
}

// newRig creates a directory and a server for it, and marks the test as parallel. Neither the server nor a kubelet is
// running yet.
func newRig(t testing.TB, edit func(*server.Config)) *rig {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	// t.TempDir's paths are too long for sockets.
	dir := must.Value(os.MkdirTemp("", "adp"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := server.Defaults()
	cfg.Metrics = metrics.New("test")
	cfg.KubeletDir = filepath.Join(dir, "k")
	cfg.HostDevRoot, cfg.HostSysRoot = "/host/dev", "/host/sys"
	cfg.BackoffMin, cfg.BackoffMax = 5*time.Millisecond, 50*time.Millisecond
	cfg.PollInterval = pollOften
	must.Succeed(t, os.Mkdir(cfg.KubeletDir, 0o755))
	if edit != nil {
		edit(&cfg)
	}
	r := &rig{TB: t, cfg: cfg, devices: &devices{stale: make(chan struct{})}, logged: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	r.ctx = ctx
	core, logs := eventtest.Observed(t)
	r.logs = logs
	log := zap.New(zapcore.RegisterHooks(core, func(zapcore.Entry) error { r.noteLine(); return nil }))
	r.Server = server.New(cfg, r.devices, log)
	return r
}

func (r *rig) noteLine() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.logged)
	r.logged = make(chan struct{})
}

// run starts the server, which runs until r.stop is called or the test ends.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		limit := time.NewTimer(testTimeout)
		defer limit.Stop()
		select {
		case err := <-ended:
			compare.NoError(r, "Run", err)
		case <-limit.C:
			r.Errorf("Run has not returned within %v", testTimeout)
		}
		compare.Empty(r, "sockets after Run", r.sockets())
	})
	r.Cleanup(r.stop)
}

// kubelet starts a kubelet, which is stopped at the end of the test.
func (r *rig) kubelet(b simkubelet.Behaviour) *simkubelet.Kubelet {
	r.Helper()
	k := must.Value(simkubelet.Start(context.WithoutCancel(r.ctx), r.cfg.KubeletDir, b))(r)
	r.Cleanup(k.Stop)
	return k
}

// await blocks until the condition is true, checking it after each log line.
func (r *rig) await(wanted string, condition func() bool) {
	r.Helper()
	for {
		r.mu.Lock()
		logged := r.logged
		r.mu.Unlock()
		if condition() {
			return
		}
		select {
		case <-logged:
		case <-r.ctx.Done():
			r.dump()
			r.Fatalf("timeout after %v, waiting for %s", testTimeout, wanted)
		}
	}
}

func (r *rig) dump() {
	for _, line := range r.logs.All() {
		r.Logf("%s %s %v", line.Level, line.Message, line.ContextMap())
	}
}

// awaitEvent blocks until this event has been logged n times.
func (r *rig) awaitEvent(name string, n int) {
	r.Helper()
	r.await(fmt.Sprintf("%d × %s", n, name), func() bool { return r.events(name) >= n })
}

func (r *rig) events(name string) int { return len(r.lines(name)) }

func (r *rig) lines(name string) []observer.LoggedEntry {
	return r.logs.Filter(func(e observer.LoggedEntry) bool { return e.ContextMap()["event"] == name }).All()
}

func (r *rig) awaitReady() {
	r.Helper()
	r.await("ready", func() bool { return r.Ready() == nil })
}

// serving runs the server with these devices and a kubelet, and waits until the kubelet has the list.
func (r *rig) serving(list ...*inventory.Device) *simkubelet.Kubelet {
	r.Helper()
	k := r.begin(simkubelet.Behaviour{}, list...)
	r.awaitService(k)
	return k
}

// begin starts a kubelet, runs the server, and publishes these devices.
func (r *rig) begin(b simkubelet.Behaviour, list ...*inventory.Device) *simkubelet.Kubelet {
	r.Helper()
	k := r.kubelet(b)
	r.run()
	r.devices.set(list...)
	return k
}

// awaitService blocks until the kubelet's latest list contains the node's devices and the server is ready.
func (r *rig) awaitService(k *simkubelet.Kubelet) {
	r.Helper()
	r.awaitList(k)
	r.awaitReady()
}

// awaitDevices blocks until a resource's latest list contains n devices.
func (r *rig) awaitDevices(k *simkubelet.Kubelet, name string, n int) {
	r.Helper()
	must.Value(k.AwaitList(r.ctx, name, func(l simkubelet.List) bool { return len(l.Devices) == n }))(r)
}

// awaitList blocks until the kubelet's latest list contains the node's devices.
func (r *rig) awaitList(k *simkubelet.Kubelet) simkubelet.List {
	r.Helper()
	snapshot, _ := r.devices.Latest()
	list, err := k.AwaitList(r.ctx, resource, func(l simkubelet.List) bool { return same(l, snapshot) })
	if err != nil {
		r.dump()
		r.Fatal(err)
	}
	return list
}

// same reports whether the list contains exactly the snapshot's devices.
func same(l simkubelet.List, s inventory.Snapshot) bool {
	if len(l.Devices) != len(s.Devices) {
		return false
	}
	for i, d := range s.Devices {
		if l.Devices[i] != (simkubelet.Device{ID: d.ID, Healthy: d.Health != inventory.Unhealthy, NUMANode: d.NUMANode}) {
			return false
		}
	}
	return true
}

// sockets returns the plugin's sockets in the kubelet's directory.
func (r *rig) sockets() []string {
	return must.Value(filepath.Glob(filepath.Join(r.cfg.KubeletDir, "accelerator-*.sock")))(r)
}

// socket returns the current registration's socket.
func (r *rig) socket() string {
	r.Helper()
	var path string
	r.await("socket of a registration", func() bool {
		lines := r.lines("resource.registered")
		if len(lines) == 0 {
			return false
		}
		path = lines[len(lines)-1].ContextMap()["socket"].(string)
		_, err := os.Lstat(path)
		return err == nil
	})
	return path
}

// client returns a client for the current socket, as a second kubelet would have.
func (r *rig) client() v1beta1.DevicePluginClient {
	r.Helper()
	return v1beta1.NewDevicePluginClient(r.dial(r.socket()))
}

// dial returns a connection to a socket that stays open until the test ends.
func (r *rig) dial(path string) *grpc.ClientConn {
	r.Helper()
	conn := must.Value(grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials())))(r)
	r.Cleanup(func() { _ = conn.Close() })
	return conn
}
