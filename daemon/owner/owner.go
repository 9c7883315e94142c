package owner

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/internal/boot"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

const (
	guardName   = "owner.lock"
	bootName    = "owner-dra.boot" // the boot in which a driver last owned the node
	maxBoot     = 100              // maximum size of bootName in bytes
	guardWithin = 3 * time.Second  // maximum wait for the guard, which other daemons hold for a few milliseconds

	checkWithin  = time.Second     // how long checking or releasing the lock waits for the disk
	renameWithin = time.Second     // time limit for Rename and Renamed, because other settings wait for them
	answerWithin = 5 * time.Second // waiting for the disk is logged when it has taken this long

	tryInterval = 200 * time.Millisecond // time between attempts to own the node
	logInterval = time.Minute            // time between log lines about the same wait

	// slicesWithin is how long the kubelet takes to remove a killed driver's slices. It waits for 30 s after losing the
	// connection to the driver.
	slicesWithin = 40 * time.Second
	// recordedWithin is how long the kubelet takes to record the last allocation of a device plugin that has exited.
	// The kubelet writes its checkpoint once all plugins have answered for a container, usually within milliseconds.
	recordedWithin = time.Second
	// leaveWithin is how long Leave can take before it releases the lock. The kubelet kills a pod 10 s after telling it
	// to stop.
	leaveWithin = 6 * time.Second
)

// Naming identifies how a daemon names its devices. Daemons with the same naming advertise the same devices under the
// same names.
type Naming privatedir.Mark

// NamingOf returns the naming for a description. Different descriptions give different namings.
func NamingOf(description string) Naming {
	sum := sha256.Sum256([]byte(description))
	return Naming(1 + binary.BigEndian.Uint64(sum[:])>>2)
}

// Reason says why a daemon is waiting.
type Reason string

// Reasons to wait. Except with ForSettings, a waiting daemon doesn't advertise anything.
const (
	ForAPI        Reason = "api"        // a daemon for the other API owns the node, or may have left ResourceSlices
	ForNaming     Reason = "naming"     // a daemon for this API owns the node with a different naming
	ForWithdrawal Reason = "withdrawal" // the last daemon for this API is withdrawing its devices
	ForStateDir   Reason = "state-dir"  // the lock can't be used
	ForSettings   Reason = "settings"   // the daemon keeps its old naming, because another daemon also owns the node
)

// Node is the node as seen by one daemon. Create it with [New].
type Node struct {
	dir, api, other string
	log             *zap.Logger
	disk            *privatedir.Turns    // runs the calls that use the lock after Take
	lock            *privatedir.Lock     // nil if not owned
	naming          Naming               // the naming with which the daemon owns the node
	waits           atomic.Pointer[wait] // nil if the daemon isn't waiting

	pluginSeen time.Time // when a device plugin last made this daemon wait

	tryInterval, slicesWithin, recordedWithin time.Duration // shorter in tests
	checkDir                                  func(*os.Root) error
}

// wait describes why a daemon is waiting.
type wait struct {
	reason Reason
	err    error
	began  time.Time
	logged time.Time
}

// New returns a Node for a daemon. api is control.DevicePlugin or control.DRA. New doesn't open anything. If dir, the
// state directory, is "", the node is never locked.
func New(dir, api string, log *zap.Logger) *Node {
	n := &Node{
		dir: dir, api: api, other: control.DRA, log: log.Named("owner"), disk: privatedir.NewTurns(dir),
		tryInterval: tryInterval, slicesWithin: slicesWithin, recordedWithin: recordedWithin,
		checkDir: privatedir.CheckLocal,
	}
	if api == control.DRA {
		n.other = control.DevicePlugin
	}
	return n
}

// nameOf returns the name of an API's lock file.
func nameOf(api string) string { return "owner-" + api + ".lock" }

func (n *Node) path(api string) string { return filepath.Join(n.dir, nameOf(api)) }

// Waiting returns why the daemon is waiting, or nil if it isn't.
func (n *Node) Waiting() error {
	if w := n.waits.Load(); w != nil {
		return w.err
	}
	return nil
}

// WaitsFor returns why the daemon is waiting, or "" if it isn't.
func (n *Node) WaitsFor() Reason {
	if w := n.waits.Load(); w != nil {
		return w.reason
	}
	return ""
}

// Naming returns the naming with which the daemon owns the node. It must not be called during Take or Rename.
func (n *Node) Naming() Naming { return n.naming }

// Take waits until the daemon can advertise the node's devices under its naming, and then returns nil. If ctx is done
// first, Take returns its [context.Cause]. Take calls wanted to get the naming before each attempt, because the
// settings may change while it is waiting. [Node.Naming] then returns the naming that was used.
func (n *Node) Take(ctx context.Context, wanted func() Naming) error {
	defer n.waits.Store(nil)
	if n.dir == "" {
		n.naming = wanted()
		n.log.Warn("without a state directory, another daemon may advertise the same devices", logevent.ConfigNotice, logevent.Flag("state-dir"))
		return nil
	}
	began := time.Now()
	slices, err := n.own(ctx, wanted)
	if err == nil && slices {
		err = n.awaitSlices(ctx)
	}
	if err == nil {
		err = n.awaitRecord(ctx)
	}
	if err != nil {
		return err
	}
	n.log.Info("node lock acquired", logevent.OwnerTaken, logevent.Owner(n.api), logevent.Lasted(time.Since(began)))
	return nil
}

// noteBoot records that a driver has owned the node since the machine booted.
func noteBoot(dir *os.Root) error {
	id, err := boot.ID()
	if err != nil {
		return err
	}
	if text, err := privatedir.ReadFile(dir, bootName, maxBoot); err == nil && string(text) == id {
		return nil // don't write the file unnecessarily, because the disk may be full
	}
	_, err = privatedir.ReplaceFile(dir, bootName, []byte(id))
	return err
}

// OtherMayHold reports whether containers may hold devices through the other API. They can't hold any through DRA if no
// driver has owned the node since the last boot.
func (n *Node) OtherMayHold() bool {
	if n.api == control.DRA || n.dir == "" {
		return true
	}
	var text []byte
	err := n.disk.Within(context.Background(), answerWithin, func(context.Context) error {
		dir, err := privatedir.OpenDir(n.dir, false)
		if err != nil {
			return errors.New(err.Error()) // don't wrap fs.ErrNotExist; without the directory, nothing is known
		}
		defer dir.Close()
		text, err = privatedir.ReadFile(dir, bootName, maxBoot)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	id, failed := boot.ID()
	return err != nil || failed != nil || string(text) == id
}

// own waits until the daemon holds the lock. slices reports whether ResourceSlices that a driver has published may
// still exist.
func (n *Node) own(ctx context.Context, wanted func() Naming) (slices bool, err error) {
	tick := time.NewTicker(n.tryInterval)
	defer tick.Stop()
	for {
		a, err := n.attempt(ctx, wanted())
		switch {
		case err != nil:
			return false, err
		case a.lock != nil:
			n.lock, n.naming = a.lock, a.naming
			return a.slices, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		}
		n.wait(a.reason, a.err)
		if a.reason == ForAPI && n.other == control.DevicePlugin || a.reason == ForNaming && n.api == control.DevicePlugin {
			n.pluginSeen = time.Now()
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// attempt is the result of one attempt to own the node.
type attempt struct {
	lock   *privatedir.Lock // nil if not owned
	naming Naming           // the naming marked on the lock
	slices bool             // there may still be a driver's slices
	reason Reason           // why the node isn't owned
	err    error
}

// attempt calls try and waits for the result, until ctx is done. If the disk doesn't respond, it logs this and keeps
// waiting, because each further attempt would tie up another thread.
func (n *Node) attempt(ctx context.Context, naming Naming) (attempt, error) {
	done := make(chan attempt)
	go func() {
		a := n.try(ctx, naming)
		select {
		case done <- a:
		case <-ctx.Done():
			if a.lock != nil {
				a.lock.Release()
			}
		}
	}()
	late := time.NewTicker(answerWithin)
	defer late.Stop()
	for {
		select {
		case a := <-done:
			return a, nil
		case <-late.C:
			n.wait(ForStateDir, fmt.Errorf("%s: no answer within %s: the file system hangs", n.dir, answerWithin))
		case <-ctx.Done():
			return attempt{}, context.Cause(ctx)
		}
	}
}

// wait stores and logs why the daemon is waiting. A non-nil err takes precedence over the reason.
func (n *Node) wait(reason Reason, err error) {
	now, before := time.Now(), n.waits.Load()
	holder := n.api
	if reason == ForAPI {
		holder = n.other
	}
	if err != nil && reason != ForSettings {
		reason = ForStateDir
	}
	w := &wait{reason: reason, began: now}
	switch {
	case err != nil:
		w.err = fmt.Errorf("--state-dir: %w", err)
	case reason == ForAPI:
		w.err = fmt.Errorf("%s: found a daemon of the API %s, want none", n.path(holder), holder)
	case reason == ForNaming:
		w.err = fmt.Errorf("%s: found a daemon whose settings give the devices other names, want none", n.path(holder))
	case reason == ForWithdrawal:
		w.err = fmt.Errorf("%s: the last daemon of the same API withdraws its devices", n.path(holder))
	case reason == ForSettings:
		w.err = fmt.Errorf("%s: found another daemon, so the devices keep their former names", n.path(holder))
	}
	if before != nil {
		w.began, w.logged = before.began, before.logged
	}
	if before == nil || before.err.Error() != w.err.Error() || now.Sub(w.logged) >= logInterval {
		w.logged = now
		lasted := logevent.Lasted(now.Sub(w.began))
		switch {
		case err != nil:
			n.log.Error("node cannot be locked, trying again", logevent.OwnerUnavailable, logevent.Err(err), lasted)
		case reason == ForSettings:
			n.log.Info("another daemon still uses the old settings, waiting", logevent.OwnerWaiting,
				logevent.Owner(holder), logevent.Path(n.path(holder)), logevent.Reason(string(reason)), lasted)
		default:
			n.log.Info("node owned by another daemon, waiting", logevent.OwnerWaiting,
				logevent.Owner(holder), logevent.Path(n.path(holder)), logevent.Reason(string(reason)), lasted)
		}
	}
	n.waits.Store(w)
}

// try locks the node if the daemon can currently own it with this naming.
func (n *Node) try(ctx context.Context, naming Naming) (a attempt) {
	a.err = n.guarded(ctx, func(dir *os.Root) error {
		if ctx.Err() != nil { // the file system was hanging; a record created now would make a device plugin wait
			return context.Cause(ctx)
		}
		left, err := exists(dir, n.other)
		if left {
			// Acquire the lock just to find out whether another process holds it.
			other, err := privatedir.TryLock(dir, nameOf(n.other), privatedir.Exclusive)
			if other == nil {
				a.reason = ForAPI
				return err
			}
			other.Release()
		}
		own := false
		if err == nil {
			own, err = exists(dir, n.api)
		}
		if err == nil && !own {
			_, err = privatedir.ReplaceFile(dir, nameOf(n.api), nil) // unlike TryLock, this syncs the new file
		}
		var lock *privatedir.Lock
		if err == nil {
			lock, err = privatedir.TryLock(dir, nameOf(n.api), privatedir.Shared)
		}
		if lock == nil {
			a.reason = ForWithdrawal
			return err
		}
		free, err := lock.Sole()
		if err == nil && !free {
			var same, others bool
			same, others, err = lock.Marked(privatedir.Mark(naming))
			free = same && !others
		}
		if err == nil && free && n.api == control.DRA {
			err = noteBoot(dir) // otherwise a later device plugin may allocate devices that belong to claims
		}
		if err == nil && free {
			err = lock.Mark(privatedir.Mark(naming))
		}
		if err != nil || !free {
			a.reason = ForNaming
			lock.Release()
			return err
		}
		a.lock, a.naming, a.slices = lock, naming, left && n.other == control.DRA
		return nil
	})
	return a
}

// Rename changes the naming with which the daemon owns the node. If it returns true, the daemon can advertise the
// devices under the new naming. If another daemon also owns the node or the file system hangs, it returns false. The
// daemon then keeps its old naming and should call Rename again after [RenameInterval].
//
// After a change, the daemon holds both namings until it calls [Node.Renamed], so that no other daemon advertises
// devices before the old names have been withdrawn.
func (n *Node) Rename(ctx context.Context, to Naming) bool {
	if n.naming == to || n.lock == nil {
		n.naming = to
		n.waits.Store(nil)
		return true
	}
	recorded := n.api != control.DevicePlugin || time.Since(n.pluginSeen) >= n.recordedWithin
	lock, sole := n.lock, false
	err := n.disk.Within(ctx, renameWithin, func(ctx context.Context) error {
		return n.guarded(ctx, func(*os.Root) (err error) {
			if sole, err = lock.Sole(); err == nil && sole && recorded && ctx.Err() == nil { // if ctx is done, the caller has given up
				err = lock.Mark(privatedir.Mark(to))
			}
			return err
		})
	})
	switch {
	case ctx.Err() != nil: // the daemon is exiting
		return false
	case err != nil || !sole:
		n.wait(ForSettings, err)
		n.pluginSeen = time.Now()
		return false
	case !recorded:
		return false
	}
	n.naming = to
	n.waits.Store(nil)
	return true
}

// RenameInterval is the time between calls to [Node.Rename] for the same change.
const RenameInterval = tryInterval

// Renamed gives up the old namings. It must be called after all devices that were advertised under them have been
// withdrawn.
func (n *Node) Renamed() {
	if n.lock == nil {
		return
	}
	lock, naming := n.lock, n.naming
	err := n.disk.Within(context.Background(), renameWithin, func(context.Context) error { return lock.KeepMark(privatedir.Mark(naming)) })
	if err != nil { // other daemons will wait until this one exits
		n.log.Error("old naming could not be unlocked", logevent.OwnerUnavailable, logevent.Err(err))
	}
}

// awaitSlices waits until the kubelet has removed the slices of a driver that was killed.
func (n *Node) awaitSlices(ctx context.Context) error {
	n.waits.Store(&wait{reason: ForAPI, err: fmt.Errorf("%s: the DRA driver has not deleted its ResourceSlices: waiting %s, until the kubelet has",
		n.path(n.other), n.slicesWithin)})
	n.log.Warn("ResourceSlices of a DRA driver may remain, waiting until the kubelet has removed them", logevent.OwnerWaiting,
		logevent.Owner(n.other), logevent.Path(n.path(n.other)), logevent.Reason(string(ForAPI)), logevent.Retry(n.slicesWithin))
	select {
	case <-ctx.Done():
		n.release()
		return context.Cause(ctx)
	case <-time.After(n.slicesWithin):
	}
	// Remove the driver's record. No other driver can own the node yet, because this daemon holds its own API's lock.
	err := n.disk.Within(ctx, answerWithin, func(ctx context.Context) error {
		return n.guarded(ctx, func(dir *os.Root) error { return privatedir.RemoveFile(dir, nameOf(n.other)) })
	})
	if err != nil {
		n.log.Error("lock file not removed", logevent.OwnerUnavailable, logevent.Err(err)) // the next device plugin will also wait
	}
	return nil
}

// awaitRecord waits until the kubelet has recorded what another device plugin allocated before exiting.
func (n *Node) awaitRecord(ctx context.Context) error {
	left := n.recordedWithin - time.Since(n.pluginSeen)
	if left <= 0 {
		return nil
	}
	recorded := time.NewTimer(left)
	defer recorded.Stop()
	select {
	case <-ctx.Done():
		n.release()
		return context.Cause(ctx)
	case <-recorded.C:
		return nil
	}
}

// LockCheck returns a function that returns an error once this daemon's lock file has been removed or replaced. The
// function is safe for concurrent use.
func (n *Node) LockCheck() func() error {
	if n.lock == nil {
		return func() error { return nil }
	}
	path := n.path(n.api)
	locked, err := n.lock.Stat()
	same := func() error {
		if err != nil {
			return err
		}
		switch now, err := os.Lstat(path); {
		case err == nil && os.SameFile(locked, now):
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		return fmt.Errorf("%s was removed or replaced while this daemon runs: another daemon may offer the same devices, "+
			"and cordons may be only in memory: restart the daemon, and cordon again what `devices` does not show as cordoned", path)
	}
	disk := privatedir.NewTurns(path)
	return func() error {
		if err := disk.Within(context.Background(), checkWithin, func(context.Context) error { return same() }); err != nil {
			return fmt.Errorf("--state-dir: %w", err)
		}
		return nil
	}
}

// Leave ends the ownership. If no other daemon for the API owns the node, Leave first calls withdraw to remove devices
// that would otherwise stay in Kubernetes after the daemon has exited. No daemon can take the node until withdraw
// returns. If withdraw fails, or is nil because the daemon has failed, Leave keeps DRA's record, because there may
// still be devices.
func (n *Node) Leave(ctx context.Context, withdraw func(context.Context) error) {
	lock := n.lock
	if lock == nil {
		return
	}
	defer n.release()
	if withdraw == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	var sole *privatedir.Lock
	err := n.disk.Within(ctx, answerWithin, func(ctx context.Context) error {
		return n.guarded(ctx, func(dir *os.Root) (err error) {
			lock.Release() // no daemon can take the node until this function returns
			sole, err = privatedir.TryLock(dir, nameOf(n.api), privatedir.Exclusive)
			return err
		})
	})
	if err == nil {
		if n.lock = sole; sole == nil {
			return // there is another daemon for this API
		}
		err = withdraw(ctx)
	}
	if err == nil && n.api == control.DRA { // the device plugin's file isn't a record
		err = n.disk.Within(ctx, answerWithin, func(ctx context.Context) error {
			return n.guarded(ctx, func(dir *os.Root) error { return privatedir.RemoveFile(dir, nameOf(n.api)) })
		})
	}
	if err != nil {
		n.log.Warn("node lock released, but devices may not have been withdrawn", logevent.OwnerLeft, logevent.Owner(n.api), logevent.Err(err))
		return
	}
	n.log.Info("node lock released", logevent.OwnerLeft, logevent.Owner(n.api))
}

// Release ends the ownership of a daemon that hasn't advertised anything yet. The daemon can then call Take again.
func (n *Node) Release() { n.release() }

// release releases the lock. If the file system hangs, the lock won't be released until the process exits.
func (n *Node) release() {
	if lock := n.lock; lock != nil {
		n.lock = nil
		_ = n.disk.Within(context.Background(), checkWithin, func(context.Context) error { return lock.Release() })
	}
}

// guarded calls f with the state directory, and holds owner.lock until f returns, so that no other daemon can
// interfere.
func (n *Node) guarded(ctx context.Context, f func(*os.Root) error) error {
	dir, err := privatedir.OpenDir(n.dir, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := n.checkDir(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, guardWithin)
	defer cancel()
	guard, err := privatedir.AcquireLock(ctx, dir, guardName)
	if err != nil {
		return err
	}
	defer guard.Release()
	return f(dir)
}

// exists reports whether an API's lock file exists.
func exists(dir *os.Root, api string) (bool, error) {
	switch _, err := dir.Lstat(nameOf(api)); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, privatedir.PathError(filepath.Join(dir.Name(), nameOf(api)), err)
	}
}
