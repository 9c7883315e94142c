package kubelet_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// af is a rig in mode af, with the names of its two resources.
type af struct {
	*rig
	a, b string
}

func newAF(t *testing.T, cards ...simnode.Card) af {
	t.Helper()
	r := newRig(t, kubelet.Settings{}, cards, "--mode=af")
	return af{r, r.namespace + "/" + afNameA, r.namespace + "/" + afNameB}
}

// both returns the amounts of a node with both resources.
func (r af) both(capacityA, allocatableA, capacityB, allocatableB int64) amounts {
	return amounts{r.a: {Capacity: capacityA, Allocatable: allocatableA}, r.b: {Capacity: capacityB, Allocatable: allocatableB}}
}

// A resource appears with its first device, and is at 0 after its last one; the kubelet keeps its
// name. A resource that comes back is registered only once.
func TestResourcesComeAndGo(t *testing.T) {
	t.Parallel()
	b := cardB
	b.AFUID = afuB
	r := newAF(t, cardA)
	r.advertises("one AFU", amounts{r.a: {Capacity: 2, Allocatable: 2}})
	for range 5 {
		r.do(r.node.Plug(b))
		r.timed("a card with another AFU is plugged: a resource appears", r.both(2, 2, 2, 2))
		r.do(r.node.Unplug(b.Address))
		r.timed("the card is pulled: the resource is at 0", r.both(2, 2, 0, 0))
	}
	r.registrations(r.a, 1)
	r.registrations(r.b, 1)
	r.do(r.node.Unplug(cardA.Address))
	r.advertises("no card", r.both(0, 0, 0, 0))
	r.do(r.kubelet.Restart(t.Context()))
	r.do(r.node.Plug(b))
	r.advertises("the kubelet has restarted", r.both(0, 0, 2, 2))
}

// A free port that gets another AFU leaves one resource and then joins the other. The kubelet
// processes the lists of two resources in parallel, in any order: for a moment it may have the
// device in both, and allocate it by its old resource.
func TestFreeDeviceGetsAnotherAFU(t *testing.T) {
	t.Parallel()
	r := newAF(t, cardA)
	r.advertises("started", amounts{r.a: {Capacity: 2, Allocatable: 2}})
	for range 10 {
		both := r.sample(func(now amounts) bool { return now[r.a].Capacity+now[r.b].Capacity > 2 })
		r.do(r.node.Reprogram(cardA.Address, 1, afuB))
		r.timed("a free port gets another AFU", r.both(1, 1, 1, 1))
		r.do(r.node.Reprogram(cardA.Address, 1, afuA))
		r.timed("a free port gets another AFU", r.both(2, 2, 0, 0))
		lasted := both()
		timings.add("the same, twice: the port is in both resources (0 is best)", lasted)
		if lasted > limit {
			t.Errorf("a device was in two resources for %v, want at most %v", lasted, limit)
		}
	}
}

// A held port stays in the resource that the pod requested, as unhealthy, when it gets another
// AFU; with the old AFU it is healthy again.
func TestHeldDeviceGetsAnotherAFU(t *testing.T) {
	t.Parallel()
	r := newAF(t, cardA)
	r.advertises("started", amounts{r.a: {Capacity: 2, Allocatable: 2}})
	pod := r.admit("job", r.a, 1)
	r.holds(pod, "3b:00.0")
	r.kill(r.daemon) // the next daemon does not have the time of the allocation
	r.daemon = r.startDaemon()
	r.advertises("another daemon", amounts{r.a: {Capacity: 2, Allocatable: 2}})
	for i := range 3 {
		r.do(r.node.Reprogram(cardA.Address, 0, afuB))
		r.advertises("another AFU", amounts{r.a: {Capacity: 2, Allocatable: 1}})
		r.health("another AFU", pod, map[string]string{"3b:00.0": unhealthy})
		r.logged("device.tombstone", 1+i)
		r.do(r.node.Reprogram(cardA.Address, 0, afuA))
		r.advertises("the old AFU", amounts{r.a: {Capacity: 2, Allocatable: 2}})
		r.health("the old AFU", pod, map[string]string{"3b:00.0": healthy})
	}
	r.do(r.node.Reprogram(cardA.Address, 0, afuB))
	r.statusUpdated("another AFU", pod)
	r.logged("device.tombstone", 4)
	r.kubelet.Delete(pod)
	r.advertises("the pod was deleted", r.both(1, 1, 1, 1))
	r.holds(r.admit("next", r.b, 1), "3b:00.0")
}

// A daemon of another mode offers the free devices by its own resource name, and keeps held
// devices in their resource, unhealthy, until their pods have ended.
func TestModeChange(t *testing.T) {
	t.Parallel()
	r := newAF(t, cardA, cardB)
	r.advertises("mode af", amounts{r.a: {Capacity: 4, Allocatable: 4}})
	pod := r.admit("job", r.a, 1)
	r.holds(pod, "3b:00.0")
	r.end(r.daemon)
	r.daemon = r.startDaemon("--mode=single")
	r.advertises("mode single", amounts{r.a: {Capacity: 1}, r.resource: {Capacity: 3, Allocatable: 3}})
	r.health("mode single", pod, map[string]string{"3b:00.0": unhealthy})
	r.do(r.kubelet.Restart(t.Context()))
	r.advertises("the kubelet restarts", amounts{r.a: {Capacity: 1}, r.resource: {Capacity: 3, Allocatable: 3}})
	r.holds(pod, "3b:00.0")
	r.kubelet.Delete(pod)
	r.advertises("the pod was deleted", amounts{r.a: {}, r.resource: {Capacity: 4, Allocatable: 4}})
}

// The same without a restart of the daemon: the node's annotation sets another mode, and is
// removed. The API server is a stand-in; the device manager is real.
func TestModeChangeLive(t *testing.T) {
	t.Parallel()
	const node, annotation = "node-1", "fpga.intel.com/device-plugin-mode"
	server := simapiserver.Start(nil)
	t.Cleanup(server.Close)
	server.Set(node, "uid", nil)
	r := newAF(t, cardA, cardB)
	r.advertises("mode af", amounts{r.a: {Capacity: 4, Allocatable: 4}})
	pod := r.admit("job", r.a, 1)
	r.holds(pod, "3b:00.0")
	r.end(r.daemon)
	r.daemon = r.startDaemon("--node-name", node, "--kubeconfig", r.kubeconfig(server))
	r.advertises("no annotation", amounts{r.a: {Capacity: 4, Allocatable: 4}})
	both := func(af, single int64) map[string]int64 { return map[string]int64{r.a: af, r.resource: single} }
	for range 5 {
		server.Set(node, "uid", map[string]string{annotation: "single"})
		withinBusyLimit(r.rig, "the annotation sets another mode", r.allocatable, both(0, 3))
		r.health("mode single", pod, map[string]string{"3b:00.0": unhealthy})
		server.Set(node, "uid", nil)
		withinBusyLimit(r.rig, "the annotation is removed", r.allocatable, both(4, 0))
		r.health("mode af", pod, map[string]string{"3b:00.0": healthy})
	}
	r.awaitSockets(1)
	want := amounts{r.a: {Capacity: 4, Allocatable: 4}, r.resource: {}}
	if diff := cmp.Diff(want, amounts(r.kubelet.Advertised())); diff != "" {
		t.Errorf("advertised (-want +got):\n%s", diff)
	}
}

// kubeconfig writes a kubeconfig file for the stand-in, and returns its path.
func (r *rig) kubeconfig(server *simapiserver.Server) string {
	r.t.Helper()
	path := filepath.Join(r.dir, "kubeconfig")
	r.do(os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://%s", certificate-authority-data: %s}}]
users: [{name: u, user: {token: token-1}}]
`, server.Address(), base64.StdEncoding.EncodeToString(server.CA())), 0o600))
	return path
}
