package kubelet_test

import (
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

const (
	healthy   = "Healthy"
	unhealthy = "Unhealthy"
)

// A device that breaks, and is well again, under a pod: pod status says so, and the
// kubelet is made to write it.
func TestHealthOfPod(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	pod := r.admit("job", r.resource, 1)
	r.health("admitted", pod, map[string]string{"3b:00.0": healthy})
	r.do(r.node.Set(cardA.Address, 0, "errors/errors", broken))
	r.told("broken", pod)
	r.health("broken", pod, map[string]string{"3b:00.0": unhealthy})
	r.advertises("broken", r.only(2, 1))
	r.do(r.node.Set(cardA.Address, 0, "errors/errors", whole))
	r.told("well again", pod)
	r.health("well again", pod, map[string]string{"3b:00.0": healthy})
}

// A device is pulled while a pod holds it. The kubelet would show a device that is not
// listed as Healthy, so it stays listed, and pod status has Unhealthy. It leaves the list
// when the daemon next asks the kubelet after the pod has gone.
func TestRemovedInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, cardB})
	r.advertises("started", r.only(4, 4))
	pod := r.admit("job", r.resource, 1)
	r.holds(pod, "3b:00.0")
	r.do(r.node.Unplug(cardA.Address))
	r.told("pulled", pod)
	r.health("pulled", pod, map[string]string{"3b:00.0": unhealthy})
	r.advertises("pulled: the one that was free is off the list", r.only(3, 2))
	r.logged("device.tombstone", 1)

	r.do(r.node.Plug(cardA))
	r.told("the same card is back", pod)
	r.health("the same card is back", pod, map[string]string{"3b:00.0": healthy})
	r.advertises("the same card is back", r.only(4, 4))
	r.do(r.node.Unplug(cardA.Address))
	r.told("pulled again", pod)
	r.health("pulled again", pod, map[string]string{"3b:00.0": unhealthy})

	r.kubelet.Delete(pod)
	r.ended("the pod has gone", r.only(2, 2))
}

// The same, pulled while no daemon is there: the next one finds out from the
// pod-resources API, and what the daemon before has given out is not known to it.
func TestRemovedInUseWithoutDaemon(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, cardB})
	r.advertises("started", r.only(4, 4))
	pod := r.admit("job", r.resource, 1)
	r.kill(r.daemon)
	r.advertises("no daemon", r.only(4, 0))
	r.do(r.node.Unplug(cardA.Address))
	r.daemon = r.another()
	r.advertises("another daemon", r.only(3, 2))
	r.health("another daemon", pod, map[string]string{"3b:00.0": unhealthy})
	r.kubelet.Delete(pod)
	r.advertises("the pod has gone", r.only(2, 2)) // it is asked every ten seconds
}

// The same, pulled while the kubelet is down: its checkpoint knows the pod.
func TestRemovedInUseWithoutKubelet(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, cardB})
	r.advertises("started", r.only(4, 4))
	pod := r.admit("job", r.resource, 1)
	r.do(r.kubelet.Stop())
	r.do(r.node.Unplug(cardA.Address))
	r.logged("device.removed", 2)
	r.do(r.kubelet.Resume(t.Context()))
	r.holds(pod, "3b:00.0")
	r.health("kubelet restarted", pod, map[string]string{"3b:00.0": unhealthy})
	r.advertises("kubelet restarted", r.only(3, 2))
}

// Another card in the place of the one that a pod holds is nobody's until the pod
// has gone, and pod status does not take it for the old one.
func TestReplacedInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, cardB})
	r.advertises("started", r.only(4, 4))
	pod := r.admit("job", r.resource, 1)
	r.kill(r.daemon) // the next one does not know for how long the device has been given out
	r.daemon = r.another()
	r.advertises("another daemon", r.only(4, 4))
	r.do(r.node.Unplug(cardA.Address))
	r.advertises("pulled", r.only(3, 2))
	other := cardA
	other.PCIID, other.AFUID = "8086:0b30:8086:0000", afuB
	r.do(r.node.Plug(other))
	r.advertises("replaced", r.only(4, 3))
	r.health("replaced", pod, map[string]string{"3b:00.0": unhealthy})
	r.kubelet.Delete(pod)
	r.advertises("the pod has gone", r.only(4, 4))
}

// A card is pulled under a pod, and while no daemon is there another card gets its node:
// the next daemon reads from the kubelet's checkpoint which node the pod was given, and
// keeps the other card from other pods. The first card, back, has another node than its
// pod was given.
func TestNumbersAgain(t *testing.T) {
	first, second := cardA, cardB
	first.Ports, second.Ports = 1, 1
	for _, tc := range []struct {
		name    string
		flags   []string
		restart bool // the kubelet, too
	}{
		{"nodes", nil, false},
		{"CDI", []string{"--cdi-dir", t.TempDir()}, false},
		{"the kubelet restarts, too", nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kubelet.Settings{}, []simnode.Card{first}, tc.flags...)
			r.advertises("started", r.only(1, 1))
			pod := r.admit("job", r.resource, 1)
			r.do(r.node.Unplug(first.Address))
			r.advertises("pulled", r.only(1, 0))
			r.end(r.daemon)
			r.do(r.node.Plug(second))
			if got := r.node.PortNode(second.Address, 0); got != "dfl-port.0" {
				t.Fatalf("the other card is %s, want dfl-port.0", got)
			}
			if tc.restart {
				r.do(r.kubelet.Restart(t.Context()))
			}
			r.daemon = r.another()
			r.says("5e:00.0", "node-in-use")
			r.advertises("another daemon", r.only(2, 0))
			r.do(r.node.Plug(first))
			r.says("3b:00.0", "node-changed")
			r.advertises("the first card is back", r.only(2, 0))
			r.health("the first card is back", pod, map[string]string{"3b:00.0": unhealthy})
			for _, line := range r.lines() {
				if line["device"] == "5e:00.0" && line["health"] == "healthy" {
					t.Errorf("it was offered: %v", line)
				}
			}
			r.kubelet.Delete(pod)
			r.ended("the pod has gone", r.only(2, 2))
		})
	}
}

// says waits for a line of the log with this reason for a device.
func (r *rig) says(device, reason string) {
	r.t.Helper()
	await(r, device+" is "+reason, func() bool {
		return slices.ContainsFunc(r.lines(), func(line map[string]any) bool {
			reasons, _ := line["reasons"].([]any)
			return line["device"] == device && slices.Contains(reasons, any(reason))
		})
	}, true)
}
