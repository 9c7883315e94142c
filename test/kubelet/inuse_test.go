package kubelet_test

import (
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

const (
	healthy   = "Healthy"
	unhealthy = "Unhealthy"
)

// A card is pulled while a pod holds its device. The kubelet shows devices that aren't listed as Healthy, so the daemon
// keeps the device on its list as unhealthy, and the pod's status shows Unhealthy. After the pod has ended, the device
// leaves the list at the daemon's next query to the kubelet.
func TestRemovedInUse(t *testing.T) {
	r := started(t, cardA, cardB)
	pod := r.admit("job", r.resource, 1)
	r.holds(pod, "3b:00.0")
	r.do(r.node.Unplug(cardA.Address))
	r.statusUpdated("pulled", pod)
	r.health("pulled", pod, map[string]string{"3b:00.0": unhealthy})
	r.advertises("pulled: the free device of the card is not listed", r.only(3, 2))
	r.logged("device.tombstone", 1)

	r.do(r.node.Plug(cardA))
	r.statusUpdated("the same card is plugged again", pod)
	r.health("the same card is plugged again", pod, map[string]string{"3b:00.0": healthy})
	r.advertises("the same card is plugged again", r.only(4, 4))
	r.do(r.node.Unplug(cardA.Address))
	r.statusUpdated("pulled again", pod)
	r.health("pulled again", pod, map[string]string{"3b:00.0": unhealthy})

	r.kubelet.Delete(pod)
	r.advertisesAfterEnd("the pod was deleted", r.only(2, 2))
}

// The same happens while no daemon is running. The next daemon doesn't know what the previous one allocated, and finds
// out from the pod-resources API.
func TestRemovedInUseWithoutDaemon(t *testing.T) {
	r := started(t, cardA, cardB)
	pod := r.admit("job", r.resource, 1)
	r.kill(r.daemon)
	r.advertises("no daemon", r.only(4, 0))
	r.do(r.node.Unplug(cardA.Address))
	r.daemon = r.startDaemon()
	r.advertises("another daemon", r.only(3, 2))
	r.health("another daemon", pod, map[string]string{"3b:00.0": unhealthy})
	r.kubelet.Delete(pod)
	r.advertises("the pod was deleted", r.only(2, 2)) // after the daemon's next query, which it makes every ten seconds
}

// The same happens while the kubelet is down. The pod is in its checkpoint.
func TestRemovedInUseWithoutKubelet(t *testing.T) {
	r := started(t, cardA, cardB)
	pod := r.admit("job", r.resource, 1)
	r.do(r.kubelet.Stop())
	r.do(r.node.Unplug(cardA.Address))
	r.logged("device.removed", 2)
	r.do(r.kubelet.Resume(t.Context()))
	r.holds(pod, "3b:00.0")
	r.health("kubelet restarted", pod, map[string]string{"3b:00.0": unhealthy})
	r.advertises("kubelet restarted", r.only(3, 2))
}

// A card is pulled while a pod holds it, and another card gets its device node while no daemon is running. The next
// daemon finds the pod's device node in the kubelet's checkpoint, and withholds the other card. When the first card is
// plugged in again, its device node differs from the pod's, so the card is unhealthy.
func TestNodeNumberReused(t *testing.T) {
	first, second := cardA, cardB
	first.Ports, second.Ports = 1, 1
	for _, tc := range []struct {
		name    string
		flags   []string
		restart bool // the kubelet also restarts
	}{
		{"nodes", nil, false},
		{"CDI", []string{"--cdi-dir", t.TempDir()}, false},
		{"the kubelet restarts, too", nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, []simnode.Card{first}, tc.flags...)
			r.advertises("started", r.only(1, 1))
			pod := r.admit("job", r.resource, 1)
			r.do(r.node.Unplug(first.Address))
			r.advertises("pulled", r.only(1, 0))
			r.end(r.daemon)
			r.do(r.node.Plug(second))
			if got := r.node.PortNode(second.Address, 0); got != "dfl-port.0" {
				t.Fatalf("node of the other card: got %s, want dfl-port.0", got)
			}
			if tc.restart {
				r.do(r.kubelet.Restart(t.Context()))
			}
			r.daemon = r.startDaemon()
			r.loggedReason("5e:00.0", "node-in-use")
			r.advertises("another daemon", r.only(2, 0))
			r.do(r.node.Plug(first))
			r.loggedReason("3b:00.0", "node-changed")
			r.advertises("the first card is plugged again", r.only(2, 0))
			r.health("the first card is plugged again", pod, map[string]string{"3b:00.0": unhealthy})
			for _, line := range r.lines() {
				if line["device"] == "5e:00.0" && line["health"] == "healthy" {
					t.Errorf("log: found %v, want no healthy 5e:00.0", line)
				}
			}
			r.kubelet.Delete(pod)
			r.advertisesAfterEnd("the pod was deleted", r.only(2, 2))
		})
	}
}

// loggedReason waits for a log line with the given reason for a device.
func (r *rig) loggedReason(device, reason string) {
	r.t.Helper()
	await(r, device+": log line with "+reason, func() bool {
		return slices.ContainsFunc(r.lines(), func(line map[string]any) bool {
			reasons, _ := line["reasons"].([]any)
			return line["device"] == device && slices.Contains(reasons, any(reason))
		})
	}, true)
}
