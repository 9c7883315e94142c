package driver

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// finish serves the kubelet whenever the API server doesn't have any slices for this node. It returns nil when ctx is
// done.
//
// If there are slices, the driver that published them is still running or was killed. If it was killed, the kubelet
// deletes the slices, but only once the last driver with this name has been gone for 30 s. So this driver must not
// register before then.
func (d *Driver) finish(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { d.watch(ctx); return nil })
	tasks.Go(func() error {
		for d.await(ctx, true) {
			if err := d.serveKubelet(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	tasks.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.failed:
			return err
		}
	})
	return tasks.Wait()
}

// serveKubelet serves the kubelet until slices appear or ctx is done.
func (d *Driver) serveKubelet(ctx context.Context) error {
	helper, err := d.start(ctx)
	if err != nil {
		return err
	}
	d.await(ctx, false)
	helper.Stop()
	d.registered.Store(false)
	d.calls.Lock() // wait for running calls
	defer d.calls.Unlock()
	d.stopping = ctx.Err() != nil
	return nil
}

// await waits until the API server has no slices for this node (if none is true) or has at least one (if none is
// false). It returns false if ctx is done.
func (d *Driver) await(ctx context.Context, none bool) bool {
	for {
		s, stale := d.state.Load()
		if s.listed && (len(s.stored) == 0) == none {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-stale:
		}
	}
}

// finishing returns nil if the driver is registered, or is waiting for existing slices to disappear. It counts as ready
// while it waits, because during an upgrade, the driver that published the slices doesn't exit until this one is ready.
func (d *Driver) finishing(s state) error {
	switch {
	case !s.listed:
		return errors.New("ResourceSlices: not listed yet")
	case len(s.stored) == 0 && !d.Registered():
		return errNotRegistered
	}
	return nil
}

// refuse rejects a claim: it logs the rejection and returns the error for the kubelet.
func (d *Driver) refuse(claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	const reason = "this node no longer allocates devices to claims (--finish-claims): delete the pod"
	name := claim.Namespace + "/" + claim.Name
	d.cfg.Metrics.AllocateRefused(draname.Driver)
	d.log.Warn("claim refused", logevent.ClaimRefused, logevent.Resource(draname.Driver), logevent.Claim(name), logevent.Reason(reason))
	return kubeletplugin.PrepareResult{Err: fmt.Errorf("claim %s: %s", name, reason)}
}
