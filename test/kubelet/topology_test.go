package kubelet_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// The topology manager gets the NUMA node of each device from the daemon's list.
func TestTopologyHints(t *testing.T) {
	t.Parallel()
	nowhere := simnode.Card{Address: "0000:86:00.0", Ports: 1, AFUID: afuA, InterfaceID: iface, NUMANode: -1}
	for _, test := range []struct {
		name    string
		cards   []simnode.Card
		devices int64
		want    []kubelet.Hint
	}{
		{"one device", []simnode.Card{cardA, cardB}, 1, []kubelet.Hint{{[]int{0}, true}, {[]int{0, 1}, false}, {[]int{1}, true}}},
		{"all of a node", []simnode.Card{cardA, cardB}, 2, []kubelet.Hint{{[]int{0}, true}, {[]int{0, 1}, false}, {[]int{1}, true}}},
		{"more than a node has", []simnode.Card{cardA, cardB}, 3, []kubelet.Hint{{[]int{0, 1}, true}}},
		{"a device without NUMA node", []simnode.Card{nowhere}, 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kubelet.Settings{NUMANodes: 2}, test.cards)
			ports := int64(0)
			for _, card := range test.cards {
				ports += int64(card.Ports)
			}
			r.advertises("started", r.only(ports, ports))
			if diff := cmp.Diff(test.want, r.kubelet.Hints(kubelet.NewPod("job", r.resource, test.devices), r.resource)); diff != "" {
				t.Errorf("hints (-want +got):\n%s", diff)
			}
		})
	}
}

// With the policy single-numa-node, a pod gets all devices from one NUMA node, or is refused.
func TestOneNUMANode(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{NUMANodes: 2, Policy: "single-numa-node"}, []simnode.Card{cardA, cardB})
	r.advertises("started", r.only(4, 4))
	if err := r.kubelet.Admit(t.Context(), kubelet.NewPod("three", r.resource, 3)); err == nil || !strings.Contains(err.Error(), "TopologyAffinityError") {
		t.Errorf("three devices, with two on each node: got %v, want a TopologyAffinityError", err)
	}
	r.holds(r.admit("one", r.resource, 1), "3b:00.0")
	r.holds(r.admit("two", r.resource, 2), "5e:00.0", "5e:00.0-p1")
	if err := r.kubelet.Admit(t.Context(), kubelet.NewPod("two more", r.resource, 2)); err == nil {
		t.Error("two devices, with one free device: got no error, want one")
	}
	r.holds(r.admit("last", r.resource, 1), "3b:00.0-p1")
}
