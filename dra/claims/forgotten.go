package claims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	// compareAfter is the time between startup and the first call to compare. By then, the kubelet has registered the
	// driver, and has unprepared the claims of pods that ended while no driver was running.
	compareAfter = 2 * time.Minute
	// compareEvery is the time between calls to compare. Up to a tenth is added at random, so that nodes that start at
	// the same time don't all send their queries at once. After a failure, compareAgain is used instead.
	compareEvery = time.Hour
	compareAgain = 10 * time.Minute
	// confirmAfter is the time between compare's two queries to the kubelet.
	confirmAfter = 5 * time.Minute
	// getWithin is the time limit for a request to the API server. getLocked is the limit for a request made under the
	// lock; it is shorter because other calls are waiting for the lock.
	getWithin = 10 * time.Second
	getLocked = 2 * time.Second
)

// compareOften calls compare a while after startup and then once an hour, until ctx is done. If compare fails several
// times in a row, only the first failure is logged.
func (c *Claims) compareOften(ctx context.Context) {
	if c.cfg.Client == nil || c.cfg.Named == nil {
		return
	}
	failed := false
	for wait := compareAfter; backoff.Wait(ctx, wait); {
		err := c.compare(ctx)
		if ctx.Err() != nil {
			return
		}
		wait = compareEvery + rand.N(compareEvery/10)
		if err != nil {
			wait = compareAgain
			if !failed {
				c.log.Warn("claims could not be checked", logevent.ClaimUnchecked, logevent.Resource(draname.Driver), logevent.Err(err), logevent.Retry(wait))
			}
		}
		failed = err != nil
	}
}

// compare unprepares claims that the kubelet has forgotten, which would otherwise keep their devices until the node
// restarts. If the kubelet loses its dra_manager_state file before a pod ends, it forgets the pod's claims and never
// calls Unprepare.
//
// The API server and the kubelet must agree, because neither alone can prove that no container has the device:
//
//   - According to the API server, none of the node's pods can use the claim any more. But a force-deleted pod
//     disappears from the API server immediately, even though its containers may still be running.
//   - The kubelet lists the containers of all pods that haven't ended. But once it has lost its file, it doesn't list
//     the claims of pods that are still running. The API server then still has the claim, reserved for the pod.
//
// If the kubelet knows the claim of a force-deleted pod, its DRA manager calls Unprepare within a minute, and retries
// if the call fails. So two answers without the claim, confirmAfter apart, prove that the kubelet doesn't know about
// it.
//
// One case isn't covered: the kubelet loses its file, the pod is then force-deleted, and one of its containers can't be
// stopped within confirmAfter. Neither the API server nor the kubelet knows about this container.
//
// compare returns an error, and doesn't unprepare anything, if it can't query the API server or the kubelet.
func (c *Claims) compare(ctx context.Context) error {
	all, err := c.recorded(ctx)
	if err != nil {
		return err
	}
	var unused []record
	for _, r := range all {
		why, err := c.unused(ctx, r, getWithin)
		if err != nil {
			return err
		}
		if why != "" {
			unused = append(unused, r)
		}
	}
	for _, wait := range []time.Duration{0, confirmAfter} {
		if len(unused) == 0 {
			return nil
		}
		if !backoff.Wait(ctx, wait) {
			return context.Cause(ctx)
		}
		named, err := c.cfg.Named(ctx)
		if err != nil {
			return err
		}
		unused = slices.DeleteFunc(unused, func(r record) bool {
			return slices.ContainsFunc(r.Devices, func(d device) bool { return named[d.Name] })
		})
	}
	for _, r := range unused {
		err = errors.Join(err, c.forget(ctx, r))
	}
	return err
}

// unused asks the API server whether any pod on this node can still use a claim. why is the reason that none can, or ""
// if one can.
func (c *Claims) unused(ctx context.Context, r record, within time.Duration) (why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	claim, err := c.cfg.Client.ResourceV1().ResourceClaims(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	// An API server that doesn't serve claims also returns a 404, but without a Status object.
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err):
		return "the API server has no such claim", nil
	case err != nil:
		return "", fmt.Errorf("claim %s: %w", r, err)
	case string(claim.UID) != r.UID:
		return "the API server has another claim of this name", nil
	case !r.allocated(claim, c.cfg.Node):
		return "the claim is allocated to no device that is prepared for it", nil
	case len(claim.Status.ReservedFor) == 0:
		return "the claim is reserved for no pod", nil
	}
	return "", nil
}

// allocated reports whether at least one of the record's devices is allocated to the claim.
func (r record) allocated(claim *resourceapi.ResourceClaim, node string) bool {
	return claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(result resourceapi.DeviceRequestAllocationResult) bool {
		return result.Driver == draname.Driver && result.Pool == node &&
			slices.ContainsFunc(r.Devices, func(d device) bool { return d.Name == result.Device })
	})
}

// forget unprepares a claim unless a pod can now use it. It queries the API server under the lock, so that no instance
// can prepare the claim meanwhile: if the claim is reserved for a pod after that, the pod needs a new Prepare call.
func (c *Claims) forget(ctx context.Context, r record) error {
	return c.locked(ctx, func(dir *os.Root, s inventory.Snapshot) error {
		i := indexOf(c.known, r.UID)
		if i < 0 || c.known[i].Waiting != r.Waiting {
			return nil // the kubelet does know about the claim
		}
		why, err := c.unused(ctx, r, getLocked)
		if err != nil || why == "" {
			return err
		}
		if err := c.remove(ctx, dir, i, s); err != nil {
			return err
		}
		c.log.Warn("claim forgotten by the kubelet", logevent.ClaimForgotten, logevent.Resource(draname.Driver), logevent.Claim(r.String()),
			logevent.Reason(why), logevent.Devices(logevent.Shorten(r.ids())))
		return nil
	})
}
