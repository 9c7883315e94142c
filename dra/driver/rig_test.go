package driver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"b-com.com/accelerator-device-plugin/dra/driver"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

const node = "worker-3"

// devices is an inventory. While it hangs, Alive blocks.
type devices struct {
	*latest.Value[inventory.Snapshot]
	mu    sync.Mutex
	hangs bool
}

func newDevices(list ...*inventory.Device) *devices {
	return &devices{Value: latest.New(inventory.Snapshot{Version: 1, Complete: true, Devices: list})}
}

func (d *devices) Latest() (inventory.Snapshot, <-chan struct{}) { return d.Load() }

func (d *devices) Alive(ctx context.Context) error {
	d.mu.Lock()
	hangs := d.hangs
	d.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (d *devices) hang(hangs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs = hangs
}

func (d *devices) set(list ...*inventory.Device) {
	d.Update(func(s inventory.Snapshot) inventory.Snapshot {
		return inventory.Snapshot{Version: s.Version + 1, Complete: true, Devices: list, Hinted: time.Now()}
	})
}

func well(id string) *inventory.Device {
	return &inventory.Device{ID: id, OfferedAs: draname.Driver, Family: "dfl", PCIAddress: "0000:" + id, Facts: inventory.Facts{NUMANode: 1, AFUID: "d8424dc4a4a3c413f89e433683f9040b"}}
}

func broken(id string) *inventory.Device {
	d := well(id)
	d.Health, d.Reasons, d.Fault = inventory.Unhealthy, []string{"afu-dead"}, true
	return d
}

// claims prepares claims by functions.
type claims struct {
	prepare   func(context.Context, *resourceapi.ResourceClaim) kubeletplugin.PrepareResult
	unprepare func(context.Context, kubeletplugin.NamespacedObject) error
}

func (c claims) Prepare(ctx context.Context, claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	return c.prepare(ctx, claim)
}

func (c claims) Unprepare(ctx context.Context, claim kubeletplugin.NamespacedObject) error {
	return c.unprepare(ctx, claim)
}

// rig is a driver with real sockets.
type rig struct {
	*testing.T
	*driver.Driver
	dir     string // has the directories plugin and registry
	devices *devices
	logs    *observer.ObservedLogs
	ended   chan error
	stop    context.CancelFunc
}

func newRig(t *testing.T, client kubernetes.Interface, uid string, c driver.Claims, list ...*inventory.Device) *rig {
	t.Helper()
	return rigOf(t, client, uid, false, c, list...)
}

// newFinishing returns a rig whose driver only finishes claims.
func newFinishing(t *testing.T, client kubernetes.Interface, c driver.Claims, list ...*inventory.Device) *rig {
	t.Helper()
	return rigOf(t, client, "d0ff1d24-63f8-4e4e-8e0b-3a5f1a2b3c4d", true, c, list...)
}

func rigOf(t *testing.T, client kubernetes.Interface, uid string, finish bool, c driver.Claims, list ...*inventory.Device) *rig {
	t.Helper()
	dir := must.Value(os.MkdirTemp("", "dra"))(t) // short, for the paths of sockets
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "registry"), 0o755))
	core, logs := eventtest.Observed(t)
	r := &rig{T: t, dir: dir, devices: newDevices(list...), logs: logs, ended: make(chan error, 1)}
	r.Driver = driver.New(driver.Config{
		Node: node, Client: client, Inventory: r.devices, Claims: c, Effect: resourceapi.DeviceTaintEffectNoExecute, SysfsRoot: dir,
		PodUID: uid, PluginDir: dir + "/plugin", RegistryDir: dir + "/registry", Finish: finish, Log: zap.New(core), Metrics: metrics.New("test"),
	})
	return r
}

// start runs the driver until the end of the test, or until its context or an error ends it.
func (r *rig) start() {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	done := make(chan struct{})
	go func() { r.ended <- r.Driver.Run(ctx); close(done) }()
	r.Cleanup(func() { stop(); <-done })
}

// end ends the driver, and expects no error.
func (r *rig) end() {
	r.Helper()
	r.stop()
	compare.NoError(r, "Run", <-r.ended)
}

// eventually waits until f returns true, for 20 s.
func (r *rig) eventually(what string, f func() bool) {
	r.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("found no %s in 20 s", what)
		}
	}
}

// count returns the number of log lines with an event.
func (r *rig) count(event zap.Field) int { return r.logs.FilterField(event).Len() }

// dial connects to a socket of the driver.
func (r *rig) dial(path string) *grpc.ClientConn {
	r.Helper()
	conn := must.Value(grpc.NewClient("passthrough:///"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		})))(r)
	r.Cleanup(func() { conn.Close() })
	return conn
}

// register registers the driver as a kubelet does, and returns a connection to its services.
func (r *rig) register(registered bool) *grpc.ClientConn {
	r.Helper()
	var sockets []string
	r.eventually("socket for registration", func() bool {
		sockets, _ = filepath.Glob(r.dir + "/registry/" + draname.Driver + "*-reg.sock")
		return len(sockets) > 0
	})
	client := registerapi.NewRegistrationClient(r.dial(sockets[0]))
	info, err := client.GetInfo(r.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil || info.Name != draname.Driver || info.Type != registerapi.DRAPlugin {
		r.Fatalf("GetInfo: found %v, error %v", info, err)
	}
	if _, err := client.NotifyRegistrationStatus(r.Context(), &registerapi.RegistrationStatus{PluginRegistered: registered}); (err == nil) != registered {
		r.Fatalf("NotifyRegistrationStatus(%t): error %v", registered, err)
	}
	return r.dial(info.Endpoint)
}
