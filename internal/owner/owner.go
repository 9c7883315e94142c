package owner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/control"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/trust"
)

const (
	guardName   = "owner.lock"
	guardWithin = 3 * time.Second // longest wait for the guard, which another daemon holds for some milliseconds

	tryInterval = 200 * time.Millisecond // between two attempts to own the node
	logInterval = time.Minute            // between two log lines about the same wait

	// slicesWithin is the time after which the kubelet has removed the slices of a driver that was killed: it
	// waits 30 s after the connection to the driver has ended.
	slicesWithin = 40 * time.Second
	// leaveWithin is the longest time of Leave. The kubelet kills a pod 10 s after it was told to stop.
	leaveWithin = 6 * time.Second
)

// Node is the node as one daemon sees it. Create it with [New].
type Node struct {
	dir, api, other string
	log             *zap.Logger
	lock            *trust.Lock                // nil: not owned
	waits           atomic.Pointer[waitingFor] // nil: Take does not wait

	tryInterval, slicesWithin time.Duration // shorter in tests
}

// waitingFor is the reason why a daemon does not own the node yet.
type waitingFor struct{ error }

// New returns the node for a daemon of the API control.DevicePlugin or control.DRA. It opens nothing. If the
// state directory is "", the node is never locked.
func New(dir, api string, log *zap.Logger) *Node {
	n := &Node{dir: dir, api: api, other: control.DRA, log: log.Named("owner"), tryInterval: tryInterval, slicesWithin: slicesWithin}
	if api == control.DRA {
		n.other = control.DevicePlugin
	}
	return n
}

// nameOf returns the name of the lock file of an API.
func nameOf(api string) string { return "owner-" + api + ".lock" }

func (n *Node) path(api string) string { return filepath.Join(n.dir, nameOf(api)) }

// Waiting returns the reason why Take waits, or nil if it does not wait.
func (n *Node) Waiting() error {
	if w := n.waits.Load(); w != nil {
		return w.error
	}
	return nil
}

// Take blocks until the daemon may offer the devices of the node, and returns nil. If ctx ends before, it returns
// [context.Cause].
func (n *Node) Take(ctx context.Context) error {
	defer n.waits.Store(nil)
	if n.dir == "" {
		n.log.Warn("without a state directory, the other API may offer the same devices", event.ConfigNotice, event.Flag("state-dir"))
		return nil
	}
	began := time.Now()
	slices, err := n.own(ctx)
	if err == nil && slices {
		err = n.awaitSlices(ctx)
	}
	if err != nil {
		return err
	}
	n.log.Info("node taken", event.OwnerTaken, event.Owner(n.api), event.Lasted(time.Since(began)))
	return nil
}

// own blocks until the daemon has the lock. It reports whether slices of a driver may remain.
func (n *Node) own(ctx context.Context) (slices bool, err error) {
	tick := time.NewTicker(n.tryInterval)
	defer tick.Stop()
	began, logged, last := time.Now(), time.Time{}, ""
	for {
		holder, slices, err := n.try(ctx)
		switch {
		case n.lock != nil:
			return slices, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil:
			n.waits.Store(&waitingFor{fmt.Errorf("--state-dir: %w", err)})
		case holder == n.api:
			n.waits.Store(&waitingFor{fmt.Errorf("%s: the last daemon of the same API withdraws its devices", n.path(holder))})
		default:
			n.waits.Store(&waitingFor{fmt.Errorf("%s: found a daemon of the API %s, want none", n.path(holder), holder)})
		}
		if text := n.Waiting().Error(); text != last || time.Since(logged) >= logInterval {
			last, logged = text, time.Now()
			if err != nil {
				n.log.Error("node cannot be locked, trying again", event.OwnerUnavailable, event.Err(err), event.Lasted(time.Since(began)))
			} else {
				n.log.Info("node owned by another daemon, waiting", event.OwnerWaiting,
					event.Owner(holder), event.Path(n.path(holder)), event.Lasted(time.Since(began)))
			}
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// try sets n.lock if the daemon may own the node now, and reports whether slices of a driver may remain.
// Otherwise it returns the API of the daemon that prevents this.
func (n *Node) try(ctx context.Context) (holder string, slices bool, err error) {
	err = n.guarded(ctx, func(dir *os.Root) error {
		left, err := exists(dir, n.other)
		if left {
			// The lock is taken only to learn whether another process has it.
			other, err := trust.TryLock(dir, nameOf(n.other), trust.Exclusive)
			if other == nil {
				holder = n.other
				return err
			}
			other.Release()
		}
		own := false
		if err == nil {
			own, err = exists(dir, n.api)
		}
		if err == nil && !own {
			_, err = trust.ReplaceFile(dir, nameOf(n.api), nil) // unlike TryLock, it syncs the new file to the disk
		}
		if err == nil {
			n.lock, err = trust.TryLock(dir, nameOf(n.api), trust.Shared)
		}
		holder, slices = n.api, left && n.other == control.DRA
		return err
	})
	return holder, slices, err
}

// awaitSlices blocks until the kubelet has removed the slices of a driver that was killed.
func (n *Node) awaitSlices(ctx context.Context) error {
	n.waits.Store(&waitingFor{fmt.Errorf("%s: the DRA driver has not deleted its ResourceSlices: waiting %s, until the kubelet has",
		n.path(n.other), n.slicesWithin)})
	n.log.Warn("ResourceSlices of a driver may remain, waiting until the kubelet has removed them", event.OwnerWaiting,
		event.Owner(n.other), event.Path(n.path(n.other)), event.Retry(n.slicesWithin))
	select {
	case <-ctx.Done():
		n.release()
		return context.Cause(ctx)
	case <-time.After(n.slicesWithin):
	}
	// No driver can have started, because this daemon has its lock.
	if err := n.guarded(ctx, func(dir *os.Root) error { return trust.RemoveFile(dir, nameOf(n.other)) }); err != nil {
		n.log.Error("lock file not removed", event.OwnerUnavailable, event.Err(err)) // the next start waits, too
	}
	return nil
}

// Leave ends the ownership. If no other daemon of the API owns the node, it first calls withdraw, which removes the
// devices that the API would keep after the end of the daemon. Meanwhile no daemon can take the node. If withdraw
// fails, or is nil because the daemon has failed, the record of DRA remains: devices may not have been withdrawn.
func (n *Node) Leave(ctx context.Context, withdraw func(context.Context) error) {
	if n.lock == nil {
		return
	}
	defer n.release()
	if withdraw == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	err := n.guarded(ctx, func(dir *os.Root) (err error) {
		n.release() // no daemon can take the node before the end of this function
		n.lock, err = trust.TryLock(dir, nameOf(n.api), trust.Exclusive)
		return err
	})
	if err == nil {
		if n.lock == nil {
			return // there is another daemon of this API
		}
		err = withdraw(ctx)
	}
	if err == nil && n.api == control.DRA { // a file of the device plugin records nothing
		err = n.guarded(ctx, func(dir *os.Root) error { return trust.RemoveFile(dir, nameOf(n.api)) })
	}
	if err != nil {
		n.log.Warn("node left, devices may not have been withdrawn", event.OwnerLeft, event.Owner(n.api), event.Err(err))
		return
	}
	n.log.Info("node left", event.OwnerLeft, event.Owner(n.api))
}

func (n *Node) release() {
	if n.lock != nil {
		n.lock.Release()
		n.lock = nil
	}
}

// guarded calls f with the state directory. Meanwhile no other daemon calls a function in this way.
func (n *Node) guarded(ctx context.Context, f func(*os.Root) error) error {
	dir, err := trust.OpenDir(n.dir, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	ctx, cancel := context.WithTimeout(ctx, guardWithin)
	defer cancel()
	guard, err := trust.AcquireLock(ctx, dir, guardName)
	if err != nil {
		return err
	}
	defer guard.Release()
	return f(dir)
}

// exists reports whether the lock file of an API exists.
func exists(dir *os.Root, api string) (bool, error) {
	switch _, err := dir.Lstat(nameOf(api)); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, trust.PathError(filepath.Join(dir.Name(), nameOf(api)), err)
	}
}
