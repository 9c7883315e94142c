package kubelet_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

const (
	afNameA = "af-695.d84.aVKNtusxV3qMNmj5-qCB9thCTcSko8QT-J5DNoP5BAs"
	afNameB = "af-695.f7d.aVKNtusxV3qMNmj5-qCB9vffQFy9es9yIvFEsLk6zRg"
)

// The kubelet calls GetPreferredAllocation and follows the answer. Without the call, it would choose devices in map
// order, so twenty equal results can't be a coincidence.
func TestPreferredAllocation(t *testing.T) {
	three := cardB
	three.Ports = 3
	for _, test := range []struct {
		name, policy string
		want         []string
	}{
		{"packed", "packed", []string{"3b:00.0", "3b:00.0-p1"}}, // the tightest fit is the card with two ports
		{"spread", "spread", []string{"3b:00.0", "5e:00.0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, []simnode.Card{cardA, three}, "--allocation-policy", test.policy)
			r.advertises("started", r.only(5, 5))
			for range 20 {
				pod := r.admit("job", r.resource, 2)
				r.holds(pod, test.want...)
				r.kubelet.Delete(pod)
			}
		})
	}
}

// The pod's container must also get its init container's device, which the kubelet lists in must_include_device_ids.
func TestPreferredAllocationMustInclude(t *testing.T) {
	r := started(t, cardA, cardB)
	for range 20 {
		// 3b:00.0 is held, so an init container with one device gets 3b:00.0-p1, the tightest fit.
		other := r.admit("other", r.resource, 1)
		r.holds(other, "3b:00.0")
		pod := kubelet.NewPod("job", r.resource, 2)
		pod.Spec.InitContainers = []v1.Container{kubelet.Container("init", r.resource, 1)}
		r.do(r.kubelet.Admit(t.Context(), pod))
		r.holds(pod, "3b:00.0-p1", "5e:00.0")
		r.kubelet.Delete(pod)
		r.kubelet.Delete(other)
	}
}
