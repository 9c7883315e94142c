package kubelet_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// listed waits until the pod-resources API lists these devices for the pods.
func (r *rig) listed(when string, want map[string][]string) {
	r.t.Helper()
	await(r, when, func() map[string][]string {
		got, err := r.kubelet.Listed(r.t.Context())
		r.do(err)
		return got
	}, want)
}

// If a pod is deleted while the kubelet is down, its devices are free after the restart.
func TestPodDeletedWithoutKubelet(t *testing.T) {
	r := started(t, cardA)
	pod := r.admit("job", r.resource, 2)
	r.do(r.kubelet.Stop())
	r.kubelet.Delete(pod)
	r.do(r.kubelet.Resume(t.Context()))
	r.listed("kubelet restarted", map[string][]string{})
	r.withinLimit("kubelet restarts: its pod was deleted meanwhile", r.only(2, 2))
	r.holds(r.admit("next", r.resource, 2), "3b:00.0", "3b:00.0-p1")
}

// The only device becomes unhealthy while a pod holds it. The pod keeps the device, the capacity stays at 1, and 0
// devices are allocatable, even after the pod has been deleted. Then the device recovers.
func TestOnlyDeviceBreaksUnderPod(t *testing.T) {
	t.Parallel()
	one := cardA
	one.Ports = 1
	r := newRig(t, []simnode.Card{one})
	r.advertises("started", r.only(1, 1))
	pod := r.admit("job", r.resource, 1)
	r.advertises("admitted", r.only(1, 1))
	r.do(r.node.Set(one.Address, 0, "errors/errors", broken))
	r.advertises("broken", r.only(1, 0))
	r.holds(pod, "3b:00.0")
	r.health("broken", pod, map[string]string{"3b:00.0": unhealthy})
	r.kubelet.Delete(pod)
	r.waitLimit()
	r.advertises("the pod was deleted", r.only(1, 0))
	if err := r.kubelet.Admit(t.Context(), kubelet.NewPod("next", r.resource, 1)); err == nil {
		t.Error("another pod, with only a broken device: got no error, want one")
	}
	r.do(r.node.Set(one.Address, 0, "errors/errors", whole))
	r.advertises("recovered", r.only(1, 1))
	r.holds(r.admit("last", r.resource, 1), "3b:00.0")
}
