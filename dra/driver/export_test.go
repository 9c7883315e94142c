package driver

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Restore runs the attempts to have slices written again.
func (d *Driver) Restore(ctx context.Context, handAgain func(context.Context)) {
	d.restore(ctx, handAgain)
}

// RemoveStale removes the stale sockets that are in before.
func (d *Driver) RemoveStale(ctx context.Context, before map[string]bool) (refused map[string]bool) {
	return d.removeStale(ctx, before)
}

// FillCache makes the helper fill its cache, unless slices are wanted already.
func (d *Driver) FillCache(ctx context.Context) error { return d.fillCache(ctx) }

// Stopping reports whether Run has stopped serving, and waits for the calls under way.
func (d *Driver) Stopping() bool {
	if !d.calls.TryRLock() {
		return true
	}
	d.calls.RUnlock()
	return false
}

// AwaitHanding blocks until slices that are being handed to the helper, by fillCache or others, have been.
func (d *Driver) AwaitHanding() {
	d.handing.Lock()
	defer d.handing.Unlock()
}

// Register notes that the kubelet has registered the driver.
func (d *Driver) Register() { d.registered.Store(true) }

// Want sets the wanted slices.
func (d *Driver) Want(wanted ...resourceslice.Slice) {
	d.state.Update(func(s state) state { s.wanted = wanted; return s })
}

// Stored notes a slice on the API server.
func (d *Driver) Stored(s *resourceapi.ResourceSlice) { d.note(s, false) }

// Deleted notes the deletion of a slice, with its last state or without.
func (d *Driver) Deleted(s *resourceapi.ResourceSlice, known bool) {
	if known {
		d.note(s, true)
	} else {
		d.note(cache.DeletedFinalStateUnknown{Key: s.Name, Obj: s}, true)
	}
}
