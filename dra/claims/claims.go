package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	// maxWait is how long Prepare waits for a device. It is less than 45 s because the kubelet cancels a call after
	// that time, and doesn't retry a failed call for at least 60 s.
	maxWait = 30 * time.Second
	// answerWithin is the time that Prepare reserves for its answer when it waits for a device.
	answerWithin = 5 * time.Second
	// lockWithin is the maximum time to wait for the lock. Other instances hold it only while they write.
	lockWithin = 3 * time.Second
	// retry is the longest that Prepare waits between attempts. Even without a newer snapshot, an attempt can succeed
	// because another claim has been unprepared.
	retry = time.Second
	// recheck is the maximum time between checks of the CDI spec and of other instances' claims.
	recheck = 10 * time.Second
)

// ACCELERATOR_UNITS and ACCELERATOR_DEVICES both list the IDs of a request's devices, separated by commas, in
// allocation order. If a container uses several requests or claims, they list only the last one's devices, because CDI
// can't join values. That is why a container also gets a variable for each of its devices, with a name that starts with
// envDevice.
const (
	envUnits   = "ACCELERATOR_UNITS"
	envDevices = "ACCELERATOR_DEVICES"
	envDevice  = "ACCELERATOR_DEVICE_" // followed by the device's name in upper case, with _ instead of -
)

// Config configures [Claims]. All fields are required unless their comment says otherwise.
type Config struct {
	Dir  string    // the driver's directory, where claims.json is
	Boot string    // boot ID, which changes every time the node restarts
	Node string    // name of the node and its pool
	Spec *cdi.Spec // spec for a CDI kind that only claims use; the caller must close it
	// HostSysRoot is where the host mounts sysfs.
	HostSysRoot string
	Devices     Devices
	// Taints returns the taints that an unhealthy device has in its ResourceSlice.
	Taints func(*inventory.Device) []resourceapi.DeviceTaint
	// Elsewhere is optional. It returns the devices that containers hold through the device plugin API, keyed by device
	// ID. It may block until its context is done.
	Elsewhere func(context.Context) map[string][]inventory.Holding
	// Client and Named are optional. If both are set, Run unprepares claims that the kubelet has forgotten. Named
	// returns the API names of all devices that the kubelet lists for claims, or an error if the kubelet's answer may
	// be incomplete. It may block until its context is done.
	Client kubernetes.Interface
	Named  func(context.Context) (map[string]bool, error)
	// Attributes is optional. It returns a device's attributes in its ResourceSlice, which go into the containers'
	// metadata files. Without it, there are no metadata files.
	Attributes func(*inventory.Device) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	// Claimed is optional. It stores the device nodes of prepared claims, keyed by device ID, for a device plugin that
	// takes over the node later.
	Claimed func(ctx context.Context, nodes map[string][]string) error
	// Programming is optional. Without it, devices aren't programmed for claims.
	Programming *Programming
	Log         *zap.Logger
	Metrics     *metrics.Metrics
}

// Devices is the source of snapshots.
type Devices interface {
	// Latest returns the newest snapshot and a channel that is closed when there is a newer one.
	Latest() (inventory.Snapshot, <-chan struct{})
}

// Claims prepares ResourceClaims and keeps a record of each. Create it with [Open].
type Claims struct {
	cfg     Config
	log     *zap.Logger
	added   chan struct{}
	changes *latest.Value[struct{}] // replaced after each change to the claims on disk
	problem atomic.Pointer[error]   // the last check's error; nil if the spec is up to date

	count         atomic.Int32 // number of prepared claims in the file as of the last read or write
	preparationOf sync.Map     // preparation numbers (int) of the claims that this instance has prepared, by UID

	busy chan struct{} // holds an element while a call uses the file or the fields below
	// known lists the claims as of the last read or write. hasRead is true once the file has been read.
	known        []record
	hasRead      bool
	files        map[string]cdi.File // each metadata file's mount, by file name
	preparations int                 // how many preparations this instance has made
	// complete is true from the first complete snapshot on. Before that, the spec isn't changed, because a new one
	// would lack the devices that haven't been read yet.
	complete bool
}

// Open returns a Claims that keeps its file in cfg.Dir, which it creates if necessary. It doesn't read the file yet. If
// the file isn't valid, Ready and all calls return an error.
func Open(cfg Config) (*Claims, error) {
	dir, err := privatedir.OpenDir(cfg.Dir, true)
	if err != nil {
		return nil, err
	}
	return &Claims{
		cfg: cfg, log: cfg.Log.Named("claims"), added: make(chan struct{}, 1), changes: latest.New(struct{}{}), busy: make(chan struct{}, 1),
	}, dir.Close()
}

// Prepare prepares all of a claim's devices that belong to this driver, or none of them. If the claim is already
// prepared, Prepare returns the same answer, and rewrites the CDI spec if necessary. It waits up to 30 s if a device is
// unhealthy or prepared for another claim, or if some of the node's devices haven't been read yet. It returns before
// ctx's deadline.
//
// If a device has left the node, Prepare records the claim as waiting, so that [Claims.Holdings] lists the device, and
// returns an error immediately.
func (c *Claims) Prepare(ctx context.Context, claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	began := time.Now()
	r, err := newRequest(claim, c.cfg.Node, c.cfg.Programming != nil)
	if err == nil && len(r.Devices) == 0 {
		return kubeletplugin.PrepareResult{}
	}
	var devices []kubeletplugin.Device
	if err == nil {
		devices, err = c.await(ctx, r)
	}
	admin := ""
	if slices.ContainsFunc(r.Devices, func(d device) bool { return d.Admin }) {
		admin = "admin access"
	}
	log := c.log.With(logevent.Resource(draname.Driver), logevent.Claim(r.String()), logevent.Devices(logevent.Shorten(r.ids())), logevent.Lasted(time.Since(began)))
	if err != nil {
		c.cfg.Metrics.AllocateRefused(draname.Driver)
		log.Warn("claim refused", logevent.ClaimRefused, logevent.Reason(err.Error()))
		return kubeletplugin.PrepareResult{Err: fmt.Errorf("claim %s: %w", r, err)}
	}
	c.cfg.Metrics.AllocateServed(draname.Driver, len(devices))
	log.Info("claim prepared", logevent.ClaimPrepared, logevent.Reason(admin))
	return kubeletplugin.PrepareResult{Devices: devices}
}

// await tries to serve the request immediately, with each new snapshot, and once a second. It returns when an attempt
// succeeds or waiting won't help.
func (c *Claims) await(ctx context.Context, r request) ([]kubeletplugin.Device, error) {
	wait := maxWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = max(0, min(wait, time.Until(deadline)-answerWithin))
	}
	over, again := time.NewTimer(wait), time.NewTicker(retry)
	defer over.Stop()
	defer again.Stop()
	for {
		s, stale := c.cfg.Devices.Latest()
		devices, err := c.attempt(ctx, r, s)
		if !errors.Is(err, errNotYet) {
			return devices, err
		}
		select {
		case <-stale:
		case <-again.C:
		case <-over.C:
			return nil, fmt.Errorf("%w (after %s)", err, wait.Round(time.Second))
		case <-ctx.Done():
			return nil, err
		}
	}
}

// attempt makes one attempt to serve the request. The error wraps errNotYet if a later attempt might succeed. Checks
// that don't need the lock use before, the caller's snapshot. The devices, the CDI spec and the answer all come from a
// single snapshot, taken under the lock, which may be newer.
func (c *Claims) attempt(ctx context.Context, r request, before inventory.Snapshot) (answer []kubeletplugin.Device, err error) {
	if before.Awaiting {
		return nil, notYet{errors.New("the kubelet has not reported yet which devices are in use through the device plugin API")}
	}
	if !before.Complete {
		return nil, notYet{errors.New("the devices of the node have not all been read yet")}
	}
	problems := c.unprogrammable(r, before) // so that the lock isn't held while reading the store
	var elsewhere map[string][]inventory.Holding
	if c.cfg.Elsewhere != nil {
		elsewhere = c.cfg.Elsewhere(ctx)
	}
	err = c.locked(ctx, func(dir *os.Root, s inventory.Snapshot) error {
		i := indexOf(c.known, r.UID)
		if i < 0 || c.known[i].Waiting {
			if err := c.admit(ctx, dir, r, s, problems, elsewhere); err != nil {
				return err
			}
		} else if was := c.known[i]; !r.same(was) {
			return fmt.Errorf("is still prepared with other devices (%s): delete its pods first", strings.Join(logevent.Shorten(was.ids()), ", "))
		} else if err := r.sameAFUs(was, s); err != nil {
			return err
		}
		failed := c.describe(dir, r, s)
		described, err := c.update(ctx, dir, s)
		if failed == nil && !c.mounted(r.UID) {
			failed = described
		}
		if err := errors.Join(failed, err); err != nil {
			return err
		}
		answer, err = c.answer(r, s)
		return err
	})
	return answer, err
}

// admit records a claim as prepared. If one of its devices has left the node, it returns an error and records the claim
// as waiting instead. problems comes from [Claims.unprogrammable], and elsewhere from [Config.Elsewhere].
func (c *Claims) admit(ctx context.Context, dir *os.Root, r request, s inventory.Snapshot, problems []error, elsewhere map[string][]inventory.Holding) error {
	claim, err := c.decide(r, s, problems, elsewhere)
	if len(claim.Devices) == 0 {
		return err
	}
	all := slices.Clone(c.known)
	if i := indexOf(all, r.UID); i < 0 {
		all = append(all, claim)
	} else if all[i].equal(claim) {
		return err
	} else {
		all[i] = claim
	}
	// If ctx is done, the kubelet is no longer waiting for this call, and may already have called Unprepare.
	if canceled := context.Cause(ctx); canceled != nil {
		return canceled
	}
	c.preparations++
	c.preparationOf.Store(r.UID, c.preparations) // before Changed's channel is closed
	failed := c.write(dir, all)
	if err != nil && failed != nil {
		return fmt.Errorf("%w; %w", err, failed)
	}
	return cmp.Or(err, failed)
}

// decide returns the record for a request's claim. If the record says that the claim is waiting, decide also returns an
// error. If the claim must not be recorded at all, decide returns an error and a record without devices.
func (c *Claims) decide(r request, s inventory.Snapshot, problems []error, elsewhere map[string][]inventory.Holding) (record, error) {
	for _, d := range r.Devices {
		if held := elsewhere[d.id]; len(held) > 0 && !d.Admin {
			// Check elsewhere as well, because the snapshot may be too old to include this holder.
			return record{}, d.named(heldElsewhere(held[0]))
		}
	}
	claim := r.record
	given, gone, err := r.judge(s, c.cfg.Taints, problems)
	if err != nil {
		// There is no point in recording devices with admin access, because they aren't held.
		claim.Waiting, claim.Devices = true, slices.DeleteFunc(gone, func(d device) bool { return d.Admin })
		return claim, err
	}
	for _, d := range given {
		if o := holder(c.known, d.Name); o != nil && !d.Admin {
			// When a pod is force-deleted, the scheduler may allocate its device to another claim seconds before the
			// kubelet unprepares the pod's claim.
			return record{}, d.named(notYet{fmt.Errorf("is prepared for claim %s (uid %s)", o, o.UID)})
		}
		if err := (device{}).mayGet(d.Nodes, c.known, r.UID); err != nil && !d.Admin {
			return record{}, d.named(err)
		}
	}
	claim.Devices = given
	return claim, nil
}

// answer returns the CDI names of a claim's devices, or an error if one of them isn't in the spec.
func (c *Claims) answer(r request, s inventory.Snapshot) (answer []kubeletplugin.Device, err error) {
	for i, d := range r.Devices {
		name, ok := c.cfg.Spec.Name(r.cdiName(d))
		if !ok {
			recorded, now := c.known[indexOf(c.known, r.UID)].Devices[i], s.Device(d.id)
			err := usable(now)
			if err == nil && !d.Admin {
				err = recorded.mayGet(recorded.fresh(now), c.known, r.UID)
			}
			if err == nil {
				_, err = c.hook(recorded, now)
			}
			if err == nil { // the device wasn't usable when the spec was written
				err = notYet{errors.New("is not in the CDI spec yet")}
			}
			return nil, d.named(err)
		}
		answer = append(answer, kubeletplugin.Device{
			Requests: []string{d.Request}, PoolName: c.cfg.Node, DeviceName: d.Name, CDIDeviceIDs: []string{name},
		})
	}
	return answer, nil
}

// Unprepare removes a claim's CDI devices and its record. It returns nil if there is no such claim.
func (c *Claims) Unprepare(ctx context.Context, claim kubeletplugin.NamespacedObject) error {
	err := c.locked(ctx, func(dir *os.Root, s inventory.Snapshot) error {
		i := indexOf(c.known, string(claim.UID))
		if i < 0 {
			return nil
		}
		was := c.known[i]
		if err := c.remove(ctx, dir, i, s); err != nil {
			return err
		}
		if !was.Waiting {
			c.log.Info("claim unprepared", logevent.ClaimUnprepared, logevent.Resource(draname.Driver), logevent.Claim(was.String()), logevent.Devices(logevent.Shorten(was.ids())))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("claim %s: %w", claim.NamespacedName, err)
	}
	return nil
}

// remove removes c.known[i]: first its CDI devices, then its record.
func (c *Claims) remove(ctx context.Context, dir *os.Root, i int, s inventory.Snapshot) error {
	// Remove the CDI devices first, because other claims can't get the devices while the record exists.
	rest := slices.Delete(slices.Clone(c.known), i, i+1)
	described, err := c.apply(dir, rest, s)
	c.note(errors.Join(described, err))
	if err != nil {
		return err
	}
	c.preparationOf.Delete(c.known[i].UID)
	if err := c.write(dir, rest); err != nil {
		return err
	}
	_ = c.tell(ctx, rest) // if this fails, the next check tries again
	return nil
}

// Holdings returns the devices that claims hold, keyed by device ID, for [inventory.Config.Holders]. It doesn't set the
// holders' names. A device counts as held while a claim is waiting for it. A device that is used only with admin access
// is in the map, but without a holding.
func (c *Claims) Holdings(ctx context.Context) (map[string][]inventory.Holding, error) {
	all, err := c.recorded(ctx)
	if err != nil {
		return nil, err
	}
	held := map[string][]inventory.Holding{}
	for _, r := range all {
		for _, d := range r.Devices {
			if d.Admin { // the kubelet lists such pods, but they don't hold the device
				if _, known := held[d.id]; !known {
					held[d.id] = nil
				}
				continue
			}
			// Each device has one holding. Prepared claims take precedence over waiting ones, which don't have nodes.
			if held[d.id] == nil || !r.Waiting {
				held[d.id] = []inventory.Holding{{As: draname.Driver, Nodes: d.Nodes, Later: d.Later, Given: d.identity(), AnyAFU: d.Wanted != ""}}
			}
		}
	}
	return held, nil
}

// recorded returns the claims on disk. It doesn't need the lock, because the file is replaced atomically.
func (c *Claims) recorded(ctx context.Context) ([]record, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	dir, err := privatedir.OpenDir(c.cfg.Dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return read(dir, c.cfg.Boot)
}

// Added returns a channel that receives a value when the claims on disk have changed, and after [Claims.Ask].
func (c *Claims) Added() <-chan struct{} { return c.added }

// Ask makes the driver check who holds its devices, just as it does when the claims have changed.
func (c *Claims) Ask() {
	select {
	case c.added <- struct{}{}:
	default: // the previous element hasn't been read yet
	}
}

// Changed returns a channel that is closed when the claims on disk next change.
func (c *Claims) Changed() <-chan struct{} {
	_, stale := c.changes.Load()
	return stale
}

// Prepared describes a prepared claim.
type Prepared struct {
	UID, Namespace, Name string
	Devices              []string // device IDs, in allocation order
	// Preparation changes if the claim is unprepared and then prepared again.
	Preparation int
}

// Prepared returns the prepared claims.
func (c *Claims) Prepared(ctx context.Context) ([]Prepared, error) {
	all, err := c.recorded(ctx)
	if err != nil {
		return nil, err
	}
	var prepared []Prepared
	for _, r := range all {
		if !r.Waiting {
			value, _ := c.preparationOf.Load(r.UID)
			n, _ := value.(int)
			prepared = append(prepared, Prepared{UID: r.UID, Namespace: r.Namespace, Name: r.Name, Devices: r.ids(), Preparation: n})
		}
	}
	return prepared, nil
}

// Count returns the number of prepared claims as of the last read or write of the file. It doesn't block.
func (c *Claims) Count() int { return int(c.count.Load()) }

// Run keeps the CDI spec up to date with the claims and the latest snapshot, and unprepares claims that the kubelet has
// forgotten. It doesn't change the spec before the first complete snapshot. It returns nil when ctx is done.
func (c *Claims) Run(ctx context.Context) error {
	var comparing sync.WaitGroup
	defer comparing.Wait()
	comparing.Go(func() { c.compareOften(ctx) })
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		_, stale := c.cfg.Devices.Latest()
		c.check(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
		case <-tick.C:
		}
	}
}

// Ready returns nil if the last check was able to read the claims and write the CDI spec.
func (c *Claims) Ready() error {
	if err := c.problem.Load(); err != nil {
		return *err
	}
	return nil
}

// check reads the claims and writes the CDI spec. If the claims can't be read, it uses those from the last read,
// because the spec must go on withholding the nodes of devices that have left.
func (c *Claims) check(ctx context.Context) {
	isRead := false
	err := c.locked(ctx, func(dir *os.Root, s inventory.Snapshot) error {
		isRead = true
		described, err := c.update(ctx, dir, s)
		return errors.Join(described, err)
	})
	if isRead || ctx.Err() != nil || c.enter(ctx) != nil {
		return
	}
	defer c.leave()
	c.note(err)
	if c.hasRead {
		if s := c.newest(); c.complete {
			_ = c.cfg.Spec.Write(c.injected(c.known, s)) // the error from reading the claims has been logged
		}
	}
}

// update records the prepared devices' new nodes and then writes the CDI spec, which must contain only recorded nodes.
// If nodes can't be recorded, the spec omits their devices. update logs the first error and the recovery. described is
// the error from writing the claims' metadata files.
func (c *Claims) update(ctx context.Context, dir *os.Root, s inventory.Snapshot) (described, err error) {
	remembered := c.remember(ctx, dir, s)
	described, err = c.apply(dir, c.known, s)
	err = errors.Join(remembered, err)
	c.note(errors.Join(described, err))
	return described, err
}

// remember records the nodes that prepared claims' devices have acquired since Prepare. A container that restarts gets
// these nodes from the spec, and may keep them open until it ends, even if the device leaves again and the driver
// restarts. remember passes the nodes to [Config.Claimed] first, so that a device plugin knows about every node that a
// container may get.
func (c *Claims) remember(ctx context.Context, dir *os.Root, s inventory.Snapshot) error {
	all, changed := slices.Clone(c.known), false
	for i, r := range all {
		if r.Waiting || !c.complete {
			continue
		}
		all[i].Devices = slices.Clone(r.Devices)
		for j, d := range r.Devices {
			now := s.Device(d.id)
			if d.Admin || usable(now) != nil {
				continue
			}
			if fresh := d.fresh(now); len(fresh) > 0 && d.mayGet(fresh, all, r.UID) == nil {
				all[i].Devices[j].Later, changed = slices.Concat(d.Later, fresh), true
			}
		}
	}
	if err := c.tell(ctx, all); err != nil || !changed {
		return err
	}
	return c.write(dir, all)
}

// tell passes the nodes of all prepared claims to [Config.Claimed].
func (c *Claims) tell(ctx context.Context, all []record) error {
	if c.cfg.Claimed == nil {
		return nil
	}
	nodes := map[string][]string{}
	for _, r := range all {
		for _, d := range r.Devices {
			if !r.Waiting && !d.Admin {
				nodes[d.id] = slices.Concat(nodes[d.id], d.Nodes, d.Later)
			}
		}
	}
	return c.cfg.Claimed(ctx, nodes)
}

// newest returns the latest snapshot, and sets c.complete if that snapshot is complete.
func (c *Claims) newest() inventory.Snapshot {
	s, _ := c.cfg.Devices.Latest()
	c.complete = c.complete || s.Complete
	return s
}

// apply writes the metadata files and the CDI spec for the given claims. A metadata file exists for as long as the spec
// mounts it. described is the error from writing the metadata files. It is separate because a full disk prevents them
// from being written, but mustn't prevent claims from being unprepared.
func (c *Claims) apply(dir *os.Root, all []record, s inventory.Snapshot) (described, err error) {
	if !c.complete {
		return nil, nil
	}
	described = c.renew(dir, all, s)
	err = c.cfg.Spec.Write(c.injected(all, s))
	if described == nil && err == nil {
		described = c.sweep(dir)
	}
	return described, err
}

func (c *Claims) note(err error) {
	c.cfg.Metrics.CDI(err)
	if err != nil {
		if was := c.problem.Swap(&err); was == nil || (*was).Error() != err.Error() {
			c.log.Error("CDI spec could not be written", logevent.CDIFailed, logevent.Err(err))
		}
	} else if c.problem.Swap(nil) != nil {
		c.log.Info("CDI spec could be written again", logevent.CDIRecovered)
	}
}

// injected returns the CDI devices for the given claims.
func (c *Claims) injected(all []record, s inventory.Snapshot) []cdi.Device {
	var devices []cdi.Device
	for _, r := range all {
		if r.Waiting {
			continue
		}
		of := map[string][]string{} // device IDs, by request
		for _, d := range r.Devices {
			of[d.Request] = append(of[d.Request], d.id)
		}
		for i, d := range r.Devices {
			now := s.Device(d.id)
			if usable(now) != nil || !d.Admin && len(d.fresh(now)) > 0 {
				continue
			}
			hook, err := c.hook(d, now)
			if err != nil {
				continue // without the hook, a restarted container would get a different AFU
			}
			ids := strings.Join(of[d.Request], ",")
			devices = append(devices, cdi.Device{
				ID: r.cdiName(d), Nodes: now.Nodes, SharedNodes: now.SharedNodes, Mounts: now.MountsOf(c.cfg.HostSysRoot), Files: c.mounts(r, i), Hook: hook,
				Env: []string{
					envUnits + "=" + ids,
					envDevices + "=" + ids,
					envDevice + strings.ToUpper(strings.ReplaceAll(d.Name, "-", "_")) + "=" + d.id,
				},
			})
		}
	}
	return devices
}

// write replaces the claims on disk.
func (c *Claims) write(dir *os.Root, all []record) error {
	err := write(dir, c.cfg.Boot, all)
	if err == nil {
		c.know(all)
	}
	c.signal() // even after an error, because the file may have been replaced anyway
	return err
}

func (c *Claims) signal() {
	c.changes.Store(struct{}{})
	c.Ask()
}

// locked runs work under the lock, so that no other call or instance can change the claims meanwhile. While work runs,
// c.known lists the claims on disk. The snapshot passed to work is the latest one, because an older one could put nodes
// that have been withdrawn back into the CDI spec.
func (c *Claims) locked(ctx context.Context, work func(*os.Root, inventory.Snapshot) error) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	dir, err := privatedir.OpenDir(c.cfg.Dir, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	limited, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	lock, err := privatedir.AcquireLock(limited, dir, lockName)
	if err != nil {
		return err
	}
	defer lock.Release()
	all, err := read(dir, c.cfg.Boot)
	if err != nil {
		return err
	}
	if c.hasRead && !slices.EqualFunc(all, c.known, record.equal) { // changed by another instance
		c.signal()
	}
	c.know(all)
	c.hasRead = true
	return work(dir, c.newest())
}

// know updates c.known and the number of prepared claims to match the claims on disk.
func (c *Claims) know(all []record) {
	prepared := 0
	for _, r := range all {
		if !r.Waiting {
			prepared++
		}
	}
	c.known = all
	c.count.Store(int32(prepared))
}

// enter blocks until no other call is using the claims file, or until ctx is done.
func (c *Claims) enter(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Claims) leave() { <-c.busy }
