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
	// maxWait is how long Prepare waits for a device. The kubelet ends a call after 45 s, and tries again
	// only 60 s or more after a failure.
	maxWait = 30 * time.Second
	// answerWithin is the time that Prepare keeps for the answer, after it has waited.
	answerWithin = 5 * time.Second
	// lockWithin is the longest wait for the lock, which another instance holds only for one write.
	lockWithin = 3 * time.Second
	// retry is the longest time between two attempts of Prepare. Without a newer snapshot, an attempt may
	// succeed because another claim has been unprepared.
	retry = time.Second
	// recheck is the longest time between two checks of the CDI spec and of the claims of another instance.
	recheck = 10 * time.Second
)

// The environment variables with the ids of the devices of a request, separated by commas, in the order of
// the allocation. Both have the same value. If a container has several requests or claims, they have only
// the devices of the last one, because CDI cannot join values. A container always has a variable that begins
// with envDevice for each of its devices.
const (
	envUnits   = "ACCELERATOR_UNITS"
	envDevices = "ACCELERATOR_DEVICES"
	envDevice  = "ACCELERATOR_DEVICE_" // followed by the device's name in capitals, with _ for -
)

// Config is the configuration of [Claims]. All fields are required unless their comment allows otherwise.
type Config struct {
	Dir  string    // the driver's directory, which has the file with the claims
	Boot string    // id of the boot, which differs after each restart of the node
	Node string    // name of the node, which is that of its pool
	Spec *cdi.Spec // of a kind that only claims use; the caller closes it
	// HostSysRoot is the root of sysfs on the host.
	HostSysRoot string
	Devices     Devices
	// Taints returns the taints that an unhealthy device has in its ResourceSlice.
	Taints func(*inventory.Device) []resourceapi.DeviceTaint
	// Elsewhere returns the devices that are held through the device plugin API, by id. It may block until its
	// context ends. It is not required.
	Elsewhere func(context.Context) map[string][]inventory.Holding
	// Client and Named are not required. With both, Run unprepares the claims that the kubelet has forgotten. Named
	// returns the names, in the API, of the devices of claims that the kubelet reports as held. It returns an error if the
	// answer may lack some. It may block until its context ends.
	Client kubernetes.Interface
	Named  func(context.Context) (map[string]bool, error)
	// Attributes returns the attributes that a device has in its ResourceSlice, for the metadata files of containers.
	// Without it, containers get no such files.
	Attributes func(*inventory.Device) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	// Claimed remembers the nodes that the devices of prepared claims were given, by id, for a device plugin that takes
	// the node over. It is not required.
	Claimed func(ctx context.Context, nodes map[string][]string) error
	// Programming is not required. Without it no device is programmed for a claim.
	Programming *Programming
	Log         *zap.Logger
	Metrics     *metrics.Metrics
}

// Devices is the source of snapshots.
type Devices interface {
	// Latest returns the newest snapshot and a channel that is closed when there is a newer one.
	Latest() (inventory.Snapshot, <-chan struct{})
}

// Claims prepares claims. Create it with [Open].
type Claims struct {
	cfg     Config
	log     *zap.Logger
	added   chan struct{}
	changes *latest.Value[struct{}] // stored anew with each element of added
	problem atomic.Pointer[error]   // of the newest check; nil: the spec is up to date

	count atomic.Int32 // of prepared claims, as read or written last
	turn  sync.Map     // uid of a claim that this instance has prepared → its turn, an int

	busy chan struct{} // has an element while a call uses the file or the fields below
	// known has the claims that were read or written last; hasRead means that the file was read once.
	known   []record
	hasRead bool
	files   map[string]cdi.File // the mount of each metadata file, by the name of the file
	turns   int                 // number of claims that this instance has prepared
	// complete means that there has been a complete snapshot. Until then the spec is not changed, because the
	// new one would lack the devices that have not been read yet.
	complete bool
}

// Open returns the claims in a directory, which it creates if needed. It does not read the file. If the file
// is not valid, Ready and each call return the error.
func Open(cfg Config) (*Claims, error) {
	dir, err := privatedir.OpenDir(cfg.Dir, true)
	if err != nil {
		return nil, err
	}
	return &Claims{
		cfg: cfg, log: cfg.Log.Named("claims"), added: make(chan struct{}, 1), changes: latest.New(struct{}{}), busy: make(chan struct{}, 1),
	}, dir.Close()
}

// Prepare gives a claim all its devices of this driver, or none. For a claim that is already prepared, it
// returns the same answer, and writes the CDI spec again if needed. While a device is unhealthy or prepared
// for another claim, or not all devices of the node have been read, it waits up to 30 s, but returns before
// the deadline of ctx.
//
// If a device has left the node, Prepare returns an error at once, and records the claim as waiting, so that
// [Claims.Holdings] has the device.
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

// await attempts the request at once, with each new snapshot, and each second, until it is served or refused.
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

// attempt serves or refuses the request. The error wraps errNotYet if a later attempt may succeed. before is a snapshot
// for the checks without the lock. The devices, the CDI spec and the answer are those of one snapshot, which is newer or
// the same.
func (c *Claims) attempt(ctx context.Context, r request, before inventory.Snapshot) (answer []kubeletplugin.Device, err error) {
	if before.Awaiting {
		return nil, notYet{errors.New("the kubelet has not reported yet which devices are in use through the device plugin API")}
	}
	if !before.Complete {
		return nil, notYet{errors.New("the devices of the node have not all been read yet")}
	}
	problems := c.unprogrammable(r, before) // without the lock, because it reads the store
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

// admit records the devices of a claim that has none. If a device has left the node, it records the claim as
// waiting instead, and returns an error. problems has the results of [Claims.unprogrammable], and elsewhere those of
// [Config.Elsewhere].
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
	// The kubelet no longer waits for this call, and may have called Unprepare already.
	if canceled := context.Cause(ctx); canceled != nil {
		return canceled
	}
	c.turns++
	c.turn.Store(r.UID, c.turns) // before Changed
	failed := c.write(dir, all)
	if err != nil && failed != nil {
		return fmt.Errorf("%w; %w", err, failed)
	}
	return cmp.Or(err, failed)
}

// decide returns the record that the claim of a request gets: prepared, or waiting with an error. A claim that gets none
// has no devices in it, and an error.
func (c *Claims) decide(r request, s inventory.Snapshot, problems []error, elsewhere map[string][]inventory.Holding) (record, error) {
	for _, d := range r.Devices {
		if held := elsewhere[d.id]; len(held) > 0 && !d.Admin {
			// The inventory may have an older answer.
			return record{}, d.named(heldElsewhere(held[0]))
		}
	}
	claim := r.record
	given, gone, err := r.judge(s, c.cfg.Taints, problems)
	if err != nil {
		// A claim with admin access holds no device, so recording it would have no effect.
		claim.Waiting, claim.Devices = true, slices.DeleteFunc(gone, func(d device) bool { return d.Admin })
		return claim, err
	}
	for _, d := range given {
		if o := holder(c.known, d.Name); o != nil && !d.Admin {
			// After a pod is deleted by force, the scheduler allocates its device again seconds before the kubelet
			// unprepares its claim.
			return record{}, d.named(notYet{fmt.Errorf("is prepared for claim %s (uid %s)", o, o.UID)})
		}
		if err := (device{}).mayGet(d.Nodes, c.known, r.UID); err != nil && !d.Admin {
			return record{}, d.named(err)
		}
	}
	claim.Devices = given
	return claim, nil
}

// answer returns the CDI names of the devices of a claim. It returns an error if the spec lacks one.
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
			if err == nil { // it was not usable when the spec was written
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

// Unprepare removes the CDI devices and the record of a claim. It returns nil if there is no such claim.
func (c *Claims) Unprepare(ctx context.Context, claim kubeletplugin.NamespacedObject) error {
	err := c.locked(ctx, func(dir *os.Root, s inventory.Snapshot) error {
		i := indexOf(c.known, string(claim.UID))
		if i < 0 {
			return nil
		}
		was := c.known[i]
		if err := c.remove(dir, i, s); err != nil {
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

// remove removes the CDI devices and the record of a claim.
func (c *Claims) remove(dir *os.Root, i int, s inventory.Snapshot) error {
	// The CDI devices are removed first: while the record exists, no other claim gets the devices.
	rest := slices.Delete(slices.Clone(c.known), i, i+1)
	described, err := c.apply(dir, rest, s)
	c.note(errors.Join(described, err))
	if err != nil {
		return err
	}
	c.turn.Delete(c.known[i].UID)
	return c.write(dir, rest)
}

// Holdings returns the devices that claims hold, by device id, as [inventory.Config.Holders] does, without
// the names of holders. A device for which a claim waits is held, too. A device with admin access alone is in the map, with
// no holding.
func (c *Claims) Holdings(ctx context.Context) (map[string][]inventory.Holding, error) {
	all, err := c.recorded(ctx)
	if err != nil {
		return nil, err
	}
	held := map[string][]inventory.Holding{}
	for _, r := range all {
		for _, d := range r.Devices {
			if d.Admin { // the kubelet names its pods, which hold nothing
				if _, known := held[d.id]; !known {
					held[d.id] = nil
				}
				continue
			}
			// There is one holding for each device. A prepared claim takes precedence over waiting ones, which
			// have no nodes.
			if held[d.id] == nil || !r.Waiting {
				held[d.id] = []inventory.Holding{{As: draname.Driver, Nodes: d.Nodes, Later: d.Later, Given: d.given(), AnyAFU: d.Wanted != ""}}
			}
		}
	}
	return held, nil
}

// recorded returns the claims on disk. It needs no lock, because the file is replaced in one step.
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

// Added returns a channel that has an element after the claims on disk have changed.
func (c *Claims) Added() <-chan struct{} { return c.added }

// Changed returns a channel that is closed after the claims on disk have changed.
func (c *Claims) Changed() <-chan struct{} {
	_, stale := c.changes.Load()
	return stale
}

// Prepared is a claim that is prepared.
type Prepared struct {
	UID, Namespace, Name string
	Devices              []string // their ids, in the order of the allocation
	// Turn differs if the claim was unprepared and prepared again in between.
	Turn int
}

// Prepared returns the claims that are prepared.
func (c *Claims) Prepared(ctx context.Context) ([]Prepared, error) {
	all, err := c.recorded(ctx)
	if err != nil {
		return nil, err
	}
	var prepared []Prepared
	for _, r := range all {
		if !r.Waiting {
			turn, _ := c.turn.Load(r.UID)
			n, _ := turn.(int)
			prepared = append(prepared, Prepared{UID: r.UID, Namespace: r.Namespace, Name: r.Name, Devices: r.ids(), Turn: n})
		}
	}
	return prepared, nil
}

// Count returns the number of prepared claims when the file was last read or written. It does not block.
func (c *Claims) Count() int { return int(c.count.Load()) }

// Run keeps the CDI spec up to date with the claims and the newest snapshot, and unprepares the claims that the kubelet
// has forgotten, until ctx ends. Then it returns nil. Before the first complete snapshot it does not change the spec.
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

// Ready returns nil if, at the last check, the claims could be read and the CDI spec could be written.
func (c *Claims) Ready() error {
	if err := c.problem.Load(); err != nil {
		return *err
	}
	return nil
}

// check reads the claims and writes the CDI spec. If the claims cannot be read, it uses those that were read
// last, because it must withhold the nodes of a device that has left even then.
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
			_ = c.cfg.Spec.Write(c.injected(c.known, s)) // the error of the claims has been logged
		}
	}
}

// update records the new nodes of prepared devices, and then writes the CDI spec, which may have only recorded nodes. It
// logs the first error and the recovery. If the nodes cannot be recorded, the spec lacks the devices that have them.
// described is the error of the metadata files of all claims.
func (c *Claims) update(ctx context.Context, dir *os.Root, s inventory.Snapshot) (described, err error) {
	remembered := c.remember(ctx, dir, s)
	described, err = c.apply(dir, c.known, s)
	err = errors.Join(remembered, err)
	c.note(errors.Join(described, err))
	return described, err
}

// remember records the nodes that the devices of prepared claims have got since Prepare. A container that starts again
// gets these from the spec, and may open them until it ends, even if the device leaves again and the driver restarts. The
// nodes are told first, so that a device plugin knows at least those that containers can get.
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

// tell calls [Config.Claimed] for these claims.
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

// newest returns the newest snapshot, and notes whether it is complete.
func (c *Claims) newest() inventory.Snapshot {
	s, _ := c.cfg.Devices.Latest()
	c.complete = c.complete || s.Complete
	return s
}

// apply writes the metadata files and the CDI spec for these claims. A file exists for as long as the spec has it.
// described is the error of the files: on a full disk they cannot be written, but a claim can be unprepared.
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

// injected returns the CDI devices of these claims.
func (c *Claims) injected(all []record, s inventory.Snapshot) []cdi.Device {
	var devices []cdi.Device
	for _, r := range all {
		if r.Waiting {
			continue
		}
		of := map[string][]string{} // request → ids of its devices
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
				continue // a container that restarts would get another AFU
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
	c.signal() // also after an error, because the file may have been replaced
	return err
}

func (c *Claims) signal() {
	c.changes.Store(struct{}{})
	select {
	case c.added <- struct{}{}:
	default:
	}
}

// locked calls work while no other call and no other instance changes the claims. known has the claims on
// disk. The snapshot is the newest one: with an older one, the CDI spec could get nodes again that have been withdrawn.
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
	if c.hasRead && !slices.EqualFunc(all, c.known, record.equal) { // by another instance
		c.signal()
	}
	c.know(all)
	c.hasRead = true
	return work(dir, c.newest())
}

// know stores the claims that are on disk.
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

// enter blocks until no other call uses the file, or ctx ends.
func (c *Claims) enter(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Claims) leave() { <-c.busy }
