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
	// compareAfter is the time from the start to the first comparison. Before that, the kubelet registers the driver, and
	// unprepares the claims of pods that ended while no driver ran.
	compareAfter = 2 * time.Minute
	// compareEvery is the time between two comparisons; up to a tenth is added, so that nodes that started together do not
	// ask together. After a failure the time is compareAgain.
	compareEvery = time.Hour
	compareAgain = 10 * time.Minute
	// confirmAfter is the time between the two questions to the kubelet.
	confirmAfter = 5 * time.Minute
	// getWithin is the longest time for one request to the API server, and getLocked while the lock is held: less than
	// other calls wait for the lock.
	getWithin = 10 * time.Second
	getLocked = 2 * time.Second
)

// compareOften compares the claims with those of the API server, at the start and each hour, until ctx ends. It logs the
// first of several failures in a row.
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

// compare unprepares the claims that the kubelet has forgotten, which would keep their devices until the node restarts.
// A kubelet forgets a claim if it loses its file dra_manager_state before the pod ends: it never calls Unprepare.
//
// The API server and the kubelet must agree, because neither of them proves that no container has the device:
//
//   - The API server knows that no pod of the node can get the claim any more. But a pod that was deleted by force has
//     left the API server at once, while its containers still end.
//   - The kubelet names the containers of all pods that it has not ended. But after it has lost its file it names no
//     claim of a pod that still runs; then the API server has the claim, reserved for this pod.
//
// A kubelet that knows the claim of a pod that was deleted by force calls Unprepare within a minute, by its DRA manager's
// loop, or repeats it. So two answers that are confirmAfter apart show that it does not know the claim.
//
// One case is left: a kubelet that has lost its file, a pod that was deleted by force since, and a container that cannot
// be ended for confirmAfter. Neither of the two knows this container.
//
// After an error nothing is unprepared.
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

// unused returns why no pod of this node can use a claim any more, according to the API server, or "".
func (c *Claims) unused(ctx context.Context, r record, within time.Duration) (why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	claim, err := c.cfg.Client.ResourceV1().ResourceClaims(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	// An API server that does not serve claims answers 404, too, but not with an object.
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

// allocated reports whether one of the devices of the record is allocated to the claim.
func (r record) allocated(claim *resourceapi.ResourceClaim, node string) bool {
	return claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(result resourceapi.DeviceRequestAllocationResult) bool {
		return result.Driver == draname.Driver && result.Pool == node &&
			slices.ContainsFunc(r.Devices, func(d device) bool { return d.Name == result.Device })
	})
}

// forget unprepares a claim, unless a pod can use it again. It asks the API server under the lock: a pod for which the
// claim is reserved later needs a Prepare after this, by this instance or another one, and gets the devices anew.
func (c *Claims) forget(ctx context.Context, r record) error {
	return c.locked(ctx, func(dir *os.Root, s inventory.Snapshot) error {
		i := indexOf(c.known, r.UID)
		if i < 0 || c.known[i].Waiting != r.Waiting {
			return nil // the kubelet knows it after all
		}
		why, err := c.unused(ctx, r, getLocked)
		if err != nil || why == "" {
			return err
		}
		if err := c.remove(dir, i, s); err != nil {
			return err
		}
		c.log.Warn("claim forgotten by the kubelet", logevent.ClaimForgotten, logevent.Resource(draname.Driver), logevent.Claim(r.String()),
			logevent.Reason(why), logevent.Devices(logevent.Shorten(r.ids())))
		return nil
	})
}
