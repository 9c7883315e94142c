package kubelet_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// af is a rig in af mode, with the names of its two resources.
type af struct {
	*rig
	a, b string
}

func newAF(t *testing.T, cards ...simnode.Card) af {
	t.Helper()
	r := newRig(t, cards, "--mode=af")
	return af{r, r.namespace + "/" + afNameA, r.namespace + "/" + afNameB}
}

// both returns the amounts for a node with both resources.
func (r af) both(capacityA, allocatableA, capacityB, allocatableB int64) amounts {
	return amounts{r.a: {Capacity: capacityA, Allocatable: allocatableA}, r.b: {Capacity: capacityB, Allocatable: allocatableB}}
}

// A resource appears with its first device. When its last device is gone, the kubelet keeps its name, with 0 devices. A
// resource that comes back is registered only once.
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

// A free port that gets a different AFU leaves one resource and then joins the other. The kubelet processes the two
// resources' lists in parallel and in any order: for a moment, it may have the device in both, and allocate it under
// its old resource.
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

// A held port that gets a different AFU stays in the resource that the pod requested, as unhealthy. With the old AFU,
// it becomes healthy again.
func TestHeldDeviceGetsAnotherAFU(t *testing.T) {
	t.Parallel()
	r := newAF(t, cardA)
	r.advertises("started", amounts{r.a: {Capacity: 2, Allocatable: 2}})
	pod := r.admit("job", r.a, 1)
	r.holds(pod, "3b:00.0")
	r.kill(r.daemon) // the next daemon doesn't know when the device was allocated
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

// kubeconfig writes a kubeconfig file for the stand-in, and returns the file's path.
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
