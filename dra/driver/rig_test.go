package driver_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"b-com.com/accelerator-device-plugin/dra/driver"
	"b-com.com/accelerator-device-plugin/dra/test/cluster"
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
	hangs atomic.Bool
}

func newDevices(list ...*inventory.Device) *devices {
	return &devices{Value: latest.New(inventory.Snapshot{Version: 1, Complete: true, Devices: list})}
}

func (d *devices) Latest() (inventory.Snapshot, <-chan struct{}) { return d.Load() }

func (d *devices) Alive(ctx context.Context) error {
	if d.hangs.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
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

// rigOf is like newRig. If finish is set, the driver only finishes claims.
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

// count returns the number of log lines with an event.
func (r *rig) count(event zap.Field) int { return r.logs.FilterField(event).Len() }

// register registers the driver as a kubelet does, or refuses it, and returns a connection to its services.
func (r *rig) register(registered bool) *grpc.ClientConn {
	r.Helper()
	return cluster.Register(r, r.dir+"/registry", registered)
}
