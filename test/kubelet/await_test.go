package kubelet_test

import (
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// amounts are resources that the kubelet advertises.
type amounts map[string]kubelet.Amount

// only is one resource of so many devices, so many of them healthy.
func (r *rig) only(capacity, allocatable int64) amounts {
	return amounts{r.resource: {Capacity: capacity, Allocatable: allocatable}}
}

// patience is how long anything may take. What is to be quicker is measured.
const patience = 45 * time.Second

// pollLimit is how long devices may still count as held after their pod has ended: the daemon
// asks the kubelet every 10 s.
const pollLimit = 15 * time.Second

// ended is advertises after the end of a pod that held devices. It fails the test if that
// takes longer than pollLimit.
func (r *rig) ended(when string, want amounts) {
	r.t.Helper()
	if took := r.advertises(when, want); took > pollLimit {
		r.t.Errorf("%s: allocatable after %v, want within %v of the pod's end", when, took, pollLimit)
	}
}

// await waits until what is looked at is what is wanted, and returns how long that
// took.
func await[T any](r *rig, when string, look func() T, want T) time.Duration {
	r.t.Helper()
	took, wrong := within(r, patience, look, want)
	if wrong != "" {
		r.t.Fatalf("%s: not within %v (-want +got):\n%s", when, patience, wrong)
	}
	return took
}

// within is await for so long, and returns what was wrong then. The device manager
// tells nobody that its state has changed: it is asked.
func within[T any](r *rig, patience time.Duration, look func() T, want T) (took time.Duration, wrong string) {
	began := time.Now()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for {
		wrong = cmp.Diff(want, look())
		took = time.Since(began)
		if wrong == "" || took > patience {
			return took, wrong
		}
		select {
		case <-tick.C:
		case <-r.t.Context().Done():
			return took, r.t.Context().Err().Error()
		}
	}
}

// advertises waits until node status would say this and nothing else.
func (r *rig) advertises(when string, want amounts) time.Duration {
	r.t.Helper()
	return await(r, when, r.advertised, want)
}

func (r *rig) advertised() amounts { return r.kubelet.Advertised() }

// timed is advertises, for the table.
func (r *rig) timed(what string, want amounts) {
	r.t.Helper()
	timings.add(what, r.advertises(what, want))
}

// holds checks which devices a pod holds.
func (r *rig) holds(pod *v1.Pod, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.kubelet.Held(pod)); diff != "" {
		r.t.Errorf("pod %s holds (-want +got):\n%s", pod.Name, diff)
	}
}

// health waits until pod status says this of a pod's devices.
func (r *rig) health(when string, pod *v1.Pod, want map[string]string) {
	r.t.Helper()
	await(r, when, func() map[string]string { return r.kubelet.Health(pod) }, want)
}

// told waits until the kubelet was made to write the pod's status anew.
func (r *rig) told(when string, pod *v1.Pod) {
	r.t.Helper()
	await(r, when, func() bool { return r.kubelet.Told(pod) }, true)
}

// count is how often Register was called for the one resource.
func (r *rig) count() int {
	r.t.Helper()
	n, err := kubelet.Registrations(r.resource)
	r.do(err)
	return n
}

// registrations waits until Register was called so often for a resource.
func (r *rig) registrations(resource string, want int) {
	r.t.Helper()
	await(r, "registrations of "+resource, func() int {
		n, err := kubelet.Registrations(resource)
		r.do(err)
		return n
	}, want)
}

// logged waits for so many lines with an event in the daemons' log.
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

// onlyOurSockets waits until there are so many sockets beside the kubelet's: one
// for each registration that lives.
func (r *rig) onlyOurSockets(want int) {
	r.t.Helper()
	await(r, "sockets", func() int { return len(r.sockets()) }, want)
}

// allocatable is how many of each resource pods could be given.
func (r *rig) allocatable() map[string]int64 {
	all := map[string]int64{}
	for resource, amount := range r.kubelet.Advertised() {
		all[resource] = amount.Allocatable
	}
	return all
}
