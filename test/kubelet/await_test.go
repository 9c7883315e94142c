package kubelet_test

import (
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// amounts are the resources that the kubelet advertises, by name.
type amounts map[string]kubelet.Amount

// only returns the amounts for a node that has only the rig's resource.
func (r *rig) only(capacity, allocatable int64) amounts {
	return amounts{r.resource: {Capacity: capacity, Allocatable: allocatable}}
}

// awaitTimeout is the time limit for every wait. Tests with a shorter limit measure the time themselves.
const awaitTimeout = 45 * time.Second

// pollLimit is how long devices may count as held after their pod has ended. The daemon queries the kubelet every 10 s.
const pollLimit = 15 * time.Second

// advertisesAfterEnd is like advertises, for use after a pod that held devices has ended. The test fails if it takes
// longer than pollLimit.
func (r *rig) advertisesAfterEnd(when string, want amounts) {
	r.t.Helper()
	if took := r.advertises(when, want); took > pollLimit {
		r.t.Errorf("%s: allocatable %v after the pod's end, want at most %v", when, took, pollLimit)
	}
}

// await calls look until it returns want. It returns how long that took.
func await[T any](r *rig, when string, look func() T, want T) time.Duration {
	r.t.Helper()
	took, wrong := within(r, awaitTimeout, look, want)
	if wrong != "" {
		r.t.Fatalf("%s: after %v (-want +got):\n%s", when, awaitTimeout, wrong)
	}
	return took
}

// within is like await but with its own timeout, after which it returns the difference. It has to poll, because the
// device manager doesn't announce changes to its state.
func within[T any](r *rig, timeout time.Duration, look func() T, want T) (took time.Duration, wrong string) {
	began := time.Now()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for {
		wrong = cmp.Diff(want, look())
		took = time.Since(began)
		if wrong == "" || took > timeout {
			return took, wrong
		}
		select {
		case <-tick.C:
		case <-r.t.Context().Done():
			return took, r.t.Context().Err().Error()
		}
	}
}

// advertises waits until the node's status would have exactly these resources.
func (r *rig) advertises(when string, want amounts) time.Duration {
	r.t.Helper()
	return await(r, when, r.advertised, want)
}

func (r *rig) advertised() amounts { return r.kubelet.Advertised() }

// timed is like advertises, and adds how long it took to the table.
func (r *rig) timed(what string, want amounts) {
	r.t.Helper()
	timings.add(what, r.advertises(what, want))
}

// holds checks which devices a pod is holding.
func (r *rig) holds(pod *v1.Pod, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.kubelet.Held(pod)); diff != "" {
		r.t.Errorf("pod %s holds (-want +got):\n%s", pod.Name, diff)
	}
}

// health waits until the pod's status has this health for its devices.
func (r *rig) health(when string, pod *v1.Pod, want map[string]string) {
	r.t.Helper()
	await(r, when, func() map[string]string { return r.kubelet.Health(pod) }, want)
}

// statusUpdated waits until the device manager has requested an update of the pod's status.
func (r *rig) statusUpdated(when string, pod *v1.Pod) {
	r.t.Helper()
	await(r, when, func() bool { return r.kubelet.StatusUpdated(pod) }, true)
}

// count returns how often Register has been called for the rig's resource.
func (r *rig) count() int {
	r.t.Helper()
	n, err := kubelet.Registrations(r.resource)
	r.do(err)
	return n
}

// registrations waits until Register has been called want times for a resource.
func (r *rig) registrations(resource string, want int) {
	r.t.Helper()
	await(r, "registrations of "+resource, func() int {
		n, err := kubelet.Registrations(resource)
		r.do(err)
		return n
	}, want)
}

// logged waits until the daemons' logs have want lines with a given event.
func (r *rig) logged(event string, want int) {
	r.t.Helper()
	await(r, "lines "+event, func() int {
		n := 0
		for _, line := range r.lines() {
			if line["event"] == event {
				n++
			}
		}
		return n
	}, want)
}

// awaitSockets waits until the directory has want plugin sockets: one per live registration.
func (r *rig) awaitSockets(want int) {
	r.t.Helper()
	await(r, "sockets", func() int { return len(r.sockets()) }, want)
}
