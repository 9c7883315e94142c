package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	draslices "b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
)

// Config configures a [Driver]. All fields are required unless their comment says otherwise.
type Config struct {
	Node      string // name of the node and its pool
	Client    kubernetes.Interface
	Inventory Inventory
	Claims    Claims

	// Stored is optional. It returns the node's bitstreams, as described in [draslices.Config].
	Stored func() ([]programming.Stored, <-chan struct{})

	// Effect is the taint effect for a device that has failed or that its holder has lost: NoExecute, which evicts the
	// holder, or NoSchedule.
	Effect resourceapi.DeviceTaintEffect
	// SysfsRoot is where sysfs is mounted. It is used to look up cards' root complexes and drivers.
	SysfsRoot string

	// PodUID is the UID of the driver's pod. It is part of the socket names, so that a new driver can start before the
	// old one ends. If it is "", only one driver can run at a time.
	PodUID string
	// PluginDir is the driver's directory, where the kubelet finds the driver's socket. It is created if it doesn't
	// exist.
	PluginDir string
	// RegistryDir is the directory where the kubelet looks for plugins' registration sockets.
	RegistryDir string

	// Finish makes the driver only unprepare claims: it doesn't publish anything, and it rejects Prepare. This is for
	// nodes that have switched to the device plugin API.
	Finish bool

	Log     *zap.Logger
	Metrics *metrics.Metrics
}

// Inventory is the source of the node's devices, usually an [inventory.Inventory].
type Inventory interface {
	Latest() (inventory.Snapshot, <-chan struct{})
	// Alive returns nil if the snapshots are being kept up to date. It may block until ctx is done.
	Alive(ctx context.Context) error
}

// Claims prepares claims. Its methods are called concurrently, even for the same claim.
type Claims interface {
	Prepare(context.Context, *resourceapi.ResourceClaim) kubeletplugin.PrepareResult
	Unprepare(context.Context, kubeletplugin.NamespacedObject) error
}

// Driver is a DRA driver. Create it with [New], and call Run once.
type Driver struct {
	cfg       Config
	log       *zap.Logger
	helper    *kubeletplugin.Helper // set by Run before it starts any other goroutines
	publisher *draslices.Publisher
	state     *latest.Value[state]
	handing   sync.Mutex // held while passing slices to the helper

	registered *latest.Value[bool]
	streams    atomic.Int32 // open health streams
	untainted  sync.Once
	failed     chan error

	calls    sync.RWMutex // every call from the kubelet holds a read lock
	stopping bool
}

// New returns a new Driver. It doesn't open anything yet.
func New(cfg Config) *Driver {
	d := &Driver{cfg: cfg, log: cfg.Log.Named("dra"), state: latest.New(state{}), registered: latest.New(false), failed: make(chan error, 1)}
	d.publisher = draslices.NewPublisher(draslices.Config{
		Options: draslices.Options{Node: cfg.Node, Effect: cfg.Effect, PCI: draslices.PCI(cfg.SysfsRoot)},
		Devices: cfg.Inventory, Stored: cfg.Stored, StoresTaints: d.storesTaints, Publish: d.publish, Log: d.log, Metrics: cfg.Metrics,
	})
	return d
}

// Run serves the kubelet and publishes slices until ctx is done, and then returns nil. It doesn't delete the slices,
// because another driver on the node may be using them (see [Withdraw]).
func (d *Driver) Run(ctx context.Context) error {
	if err := os.MkdirAll(d.cfg.PluginDir, 0o750); err != nil {
		return err
	}
	refused := d.removeStale(ctx, nil)
	running, stop := context.WithCancel(ctx)
	var cleaning sync.WaitGroup
	defer cleaning.Wait()
	defer stop()
	cleaning.Go(func() { d.keepClean(running, refused) })
	if d.cfg.Finish {
		return d.finish(ctx)
	}

	tasks, ctx := errgroup.WithContext(ctx)
	helper, err := d.start(ctx)
	if err != nil {
		return err
	}
	d.helper = helper
	tasks.Go(func() error { return d.fillCache(ctx) })
	tasks.Go(func() error {
		// Don't publish before the registration, because the kubelet doesn't delete a killed driver's slices if the
		// driver wasn't registered.
		if !d.awaitRegistration(ctx) {
			return nil
		}
		return d.publisher.Run(ctx)
	})
	tasks.Go(func() error { d.watch(ctx); return nil })
	tasks.Go(func() error { d.restore(ctx, d.handAgain); return nil })
	tasks.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.failed:
			return err
		}
	})
	err = tasks.Wait()
	helper.Stop() // cancels the contexts of all calls, but doesn't wait for them
	d.calls.Lock()
	defer d.calls.Unlock()
	d.stopping = true
	return err
}

// start starts a helper, which serves the kubelet until it is stopped.
func (d *Driver) start(ctx context.Context) (*kubeletplugin.Helper, error) {
	return kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(draname.Driver),
		kubeletplugin.NodeName(d.cfg.Node),
		kubeletplugin.KubeClient(d.cfg.Client),
		kubeletplugin.RollingUpdate(types.UID(d.cfg.PodUID)),
		kubeletplugin.PluginDataDirectoryPath(d.cfg.PluginDir),
		kubeletplugin.RegistrarDirectoryPath(d.cfg.RegistryDir),
		kubeletplugin.Serialize(false), // so that a claim that is waiting for a device doesn't delay others
		kubeletplugin.GRPCInterceptor(d.noteRegistration),
	)
}

// fillCache makes the helper fill its cache. This takes a second, so it happens before the first snapshot is ready. The
// helper doesn't write anything, because fillCache doesn't pass it any pools. After the first publication, fillCache
// does nothing, because without pools the helper would delete the slices.
func (d *Driver) fillCache(ctx context.Context) error {
	d.handing.Lock()
	defer d.handing.Unlock()
	if s, _ := d.state.Load(); s.wanted != nil {
		return nil
	}
	return d.hand(ctx, resourceslice.DriverResources{})
}

// publish stores the Publisher's slices as the desired ones, and passes them to the helper.
func (d *Driver) publish(ctx context.Context, r resourceslice.DriverResources) error {
	d.handing.Lock()
	defer d.handing.Unlock()
	d.state.Update(func(s state) state { s.wanted = r.Pools[d.cfg.Node].Slices; return s })
	return d.hand(ctx, r)
}

// handAgain passes the desired slices to the helper once more.
func (d *Driver) handAgain(ctx context.Context) {
	d.handing.Lock()
	defer d.handing.Unlock()
	s, _ := d.state.Load()
	// Ignore the error: if this call could fail, the first call would have failed too, and ended the driver.
	_ = d.hand(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.cfg.Node: {Slices: s.wanted}}})
}

// hand passes slices to the helper. The first call blocks until the API server has answered.
func (d *Driver) hand(ctx context.Context, r resourceslice.DriverResources) error {
	if err := d.helper.PublishResources(ctx, r); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// Republish publishes the slices again, even if they are unchanged.
func (d *Driver) Republish() { d.publisher.Republish() }

// Registered reports whether the kubelet has registered the driver.
func (d *Driver) Registered() bool {
	registered, _ := d.registered.Load()
	return registered
}

// awaitRegistration waits until the kubelet has registered the driver. It returns false if ctx is done.
func (d *Driver) awaitRegistration(ctx context.Context) bool {
	for {
		registered, stale := d.registered.Load()
		if registered {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-stale:
		}
	}
}

// Streams returns the number of open health streams.
func (d *Driver) Streams() int { return int(d.streams.Load()) }

var errNotRegistered = errors.New("not registered with the kubelet")

// Ready returns nil if the kubelet has registered the driver and the API server has the latest slices.
func (d *Driver) Ready() error {
	s, _ := d.state.Load()
	if d.cfg.Finish {
		return d.finishing(s)
	}
	if !d.Registered() {
		return errNotRegistered
	}
	if !s.current() {
		return errors.New("ResourceSlices: found none or outdated ones on the API server, want those of the newest snapshot")
	}
	return nil
}

// noteRegistration stores the kubelet's answer to the registration. The helper stores it too, but not in a way that is
// safe for concurrent use.
func (d *Driver) noteRegistration(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if status, ok := request.(*registerapi.RegistrationStatus); ok {
		d.registered.Store(status.PluginRegistered)
		if !status.PluginRegistered {
			d.cfg.Metrics.RegistrationFailed(draname.Driver)
		} else {
			d.cfg.Metrics.Registered(draname.Driver)
			d.log.Info("driver registered", logevent.DriverRegistered, logevent.Resource(draname.Driver))
		}
	}
	return handle(ctx, request) // logs an error if the kubelet has rejected the driver
}

// errStopping is returned for calls that arrive while the driver is stopping.
var errStopping = errors.New("driver is stopping")

// begin marks the start of a call from the kubelet. The caller must call end when the call is finished. If the driver
// is stopping, begin returns an error.
func (d *Driver) begin() (end func(), err error) {
	d.calls.RLock()
	if d.stopping {
		d.calls.RUnlock()
		return nil, errStopping
	}
	return d.calls.RUnlock, nil
}

// PrepareResourceClaims implements [kubeletplugin.DRAPlugin].
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	return each(claims, func(claim *resourceapi.ResourceClaim) (types.UID, kubeletplugin.PrepareResult) {
		if d.cfg.Finish {
			return claim.UID, d.refuse(claim)
		}
		return claim.UID, d.cfg.Claims.Prepare(ctx, claim)
	}), nil
}

// UnprepareResourceClaims implements [kubeletplugin.DRAPlugin].
func (d *Driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	return each(claims, func(claim kubeletplugin.NamespacedObject) (types.UID, error) {
		return claim.UID, d.cfg.Claims.Unprepare(ctx, claim)
	}), nil
}

// each calls f concurrently for all claims, and returns the results, keyed by UID.
func each[C, R any](claims []C, f func(C) (types.UID, R)) map[types.UID]R {
	var working sync.WaitGroup
	uids, results := make([]types.UID, len(claims)), make([]R, len(claims))
	for i, claim := range claims {
		working.Go(func() { uids[i], results[i] = f(claim) })
	}
	working.Wait()
	all := make(map[types.UID]R, len(claims))
	for i, uid := range uids {
		all[uid] = results[i]
	}
	return all
}

// taintsWithin is how long storesTaints waits for the API server. Without an answer, the driver assumes that the API
// server stores taints. If that is wrong, HandleError will find out.
const taintsWithin = 5 * time.Second

// storesTaints does a dry run to find out whether the API server stores taints.
func (d *Driver) storesTaints(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, taintsWithin)
	defer cancel()
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: d.cfg.Node + "-"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: draname.Driver, NodeName: &d.cfg.Node, Pool: resourceapi.ResourcePool{Name: d.cfg.Node, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "any", Taints: []resourceapi.DeviceTaint{{Key: draname.Taint, Effect: resourceapi.DeviceTaintEffectNoSchedule}}}},
		},
	}
	for retries := (backoff.Backoff{First: 100 * time.Millisecond, Most: time.Second}); ; {
		stored, err := d.cfg.Client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil && len(stored.Spec.Devices) == 1 && len(stored.Spec.Devices[0].Taints) == 0:
			d.taintsUnsupported(errors.New("found a slice without its taint in the answer to a dry run"))
			return false
		case err == nil, !backoff.Wait(ctx, retries.Next()):
			return true
		}
	}
}

// taintsUnsupported logs, once, that the API server drops taints.
func (d *Driver) taintsUnsupported(err error) {
	d.untainted.Do(func() {
		d.log.Warn("taints not supported by the API server", logevent.TaintsUnsupported, logevent.Resource(draname.Driver), logevent.Err(err))
	})
}

// HandleError implements [kubeletplugin.DRAPlugin].
func (d *Driver) HandleError(ctx context.Context, err error, message string) {
	var dropped *resourceslice.DroppedFieldsError
	switch {
	case errors.Is(err, context.Canceled): // the driver is stopping
	case errors.As(err, &dropped) && slices.Contains(dropped.DisabledFeatures(), "DRADeviceTaints"): // the API server was restarted and now drops taints
		d.publisher.WithoutTaints()
		d.taintsUnsupported(dropped)
	case errors.Is(err, kubeletplugin.ErrRecoverable) && strings.HasPrefix(message, "device health"):
		utilruntime.HandleErrorWithContext(ctx, err, message) // the inventory is hanging
	case errors.Is(err, kubeletplugin.ErrRecoverable):
		d.cfg.Metrics.SlicesFailed()
		d.log.Warn("slices not written", logevent.SlicesFailed, logevent.Resource(draname.Driver), logevent.Err(fmt.Errorf("%s: %w", message, err)))
	default:
		select {
		case d.failed <- fmt.Errorf("%s: %w", message, err):
		default: // the driver is already stopping
		}
	}
}
