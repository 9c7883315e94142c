package claims_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// cluster is what an API server and a kubelet know about claims.
type cluster struct {
	*fake.Clientset
	t testing.TB

	mu       sync.Mutex
	named    map[string]bool // device names in the kubelet's answers
	silent   error           // of the kubelet
	apiError error
	gets     int
	onGet    func() // called with each request for a claim; may be nil
}

// newCluster returns a cluster in which one pod uses each of the claims. The rig compares its claims with this cluster.
func newCluster(r *rig, claims ...*resourceapi.ResourceClaim) *cluster {
	k := &cluster{Clientset: fake.NewClientset(), t: r.t, named: map[string]bool{}}
	k.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.gets++
		if k.onGet != nil {
			k.onGet()
		}
		return k.apiError != nil, nil, k.apiError
	})
	for _, c := range claims {
		k.put(reserved(c))
		for _, result := range c.Status.Allocation.Devices.Results {
			k.named[result.Device] = true
		}
	}
	r.client, r.named = k, k.answer
	r.restart()
	return k
}

func (k *cluster) answer(context.Context) (map[string]bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.named), k.silent
}

func (k *cluster) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *cluster) name(devices ...string) {
	k.set(func() {
		k.named = map[string]bool{}
		for _, d := range devices {
			k.named[d] = true
		}
	})
}

// put stores a claim in place of any other claim with its name.
func (k *cluster) put(c *resourceapi.ResourceClaim) {
	k.t.Helper()
	k.remove(c)
	must.Value(k.ResourceV1().ResourceClaims(c.Namespace).Create(context.Background(), c, metav1.CreateOptions{}))(k.t)
}

func (k *cluster) remove(c *resourceapi.ResourceClaim) {
	k.t.Helper()
	err := k.ResourceV1().ResourceClaims(c.Namespace).Delete(context.Background(), c.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		k.t.Fatal(err)
	}
}

// reserved returns the claim, reserved for a pod.
func reserved(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c = c.DeepCopy()
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "job", UID: "uid-job"}}
	return c
}

const first, second = "pci-0000-3b-00-0", "pci-0000-5e-00-0"

// The kubelet has lost its state, so it never calls Unprepare. A claim is unprepared only if neither the API server nor
// the kubelet knows a pod that may use it. The claim of another pod stays.
func TestForgottenClaim(t *testing.T) {
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
	edited := func(change func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
		c := reserved(one)
		change(c)
		return c
	}
	in := func(node, device string) *resourceapi.ResourceClaim {
		return edited(func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation.Devices.Results[0].Pool, c.Status.Allocation.Devices.Results[0].Device = node, device
		})
	}
	gone := apierrors.NewGenericServerResponse(404, "get", resourceapi.Resource("resourceclaims"), "one", "404 page not found", 0, true)
	for _, tc := range []struct {
		name     string
		claim    *resourceapi.ResourceClaim // in the API server; nil: deleted
		named    bool                       // by the kubelet
		apiError error
		silent   error
		why      string // it is unprepared; "": never
	}{
		{"deleted", nil, false, nil, nil, "the API server has no such claim"},
		{"deleted, and created again", edited(func(c *resourceapi.ResourceClaim) { c.UID = "uid-other" }), false, nil, nil, "the API server has another claim of this name"},
		{"deallocated", edited(func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }), false, nil, nil, "the claim is allocated to no device that is prepared for it"},
		{"allocated on another node", in("node2", first), false, nil, nil, "the claim is allocated to no device that is prepared for it"},
		{"another device", in(node, "pci-0000-af-00-0"), false, nil, nil, "the claim is allocated to no device that is prepared for it"},
		{"no pod", edited(func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil }), false, nil, nil, "the claim is reserved for no pod"},
		{"the pod runs", reserved(one), true, nil, nil, ""},
		{"the kubelet has lost its state, and the pod runs", reserved(one), false, nil, nil, ""},
		{"the pod was deleted by force, and its container runs", nil, true, nil, nil, ""},
		{"the API server fails", nil, false, apierrors.NewInternalError(errors.New("etcd")), nil, ""},
		{"the API server forbids it", nil, false, apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "one", nil), nil, ""},
		{"the API server serves no claims", nil, false, gone, nil, ""},
		{"the kubelet does not answer", nil, false, nil, errors.New("connection refused"), ""},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
			k := newCluster(r, one, two)
			r.prepare(one, two)
			k.remove(one)
			if tc.claim != nil {
				k.put(tc.claim)
			}
			k.set(func() { k.named[first], k.apiError, k.silent = tc.named, tc.apiError, tc.silent })
			r.lines()
			r.start()
			time.Sleep(6 * time.Minute)
			synctest.Wait()
			before := []string{"3b:00.0 dfl-port.0 240:0", "5e:00.0 dfl-port.1 240:1"}
			r.holds(before...)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			var lines []string
			switch {
			case tc.why != "":
				r.holds(before[1])
				r.injects(devicesOf(two, "dfl-port.1")...)
				lines = []string{"claim.forgotten default/one [3b:00.0] " + tc.why}
			case tc.apiError != nil || tc.silent != nil:
				r.holds(before...)
				lines = []string{"claim.unchecked"}
			default:
				r.holds(before...)
			}
			got := r.lines()
			for i, line := range got {
				if name, rest, _ := strings.Cut(line, " "); name == "claim.unchecked" && rest != "" {
					got[i] = name // its error is the one of the case
				}
			}
			compare.Values(t, "log", lines, got)
		})
	}
}

// A device of a forgotten claim is free as soon as the claim is unprepared, seven minutes after the driver has started.
// Few requests are needed.
func TestForgottenClaimIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", 0))
		one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "3b:00.0"))
		k := newCluster(r, one)
		r.prepare(one)
		stop := r.start()
		time.Sleep(12 * time.Hour)
		stop()
		if k.gets < 11 || k.gets > 12 {
			t.Errorf("requests for the claim in 12 hours: found %d, want one in each hour", k.gets)
		}
		k.remove(one)
		k.name()
		r.restart()
		r.start()
		time.Sleep(7*time.Minute - time.Second)
		r.refuseNow(two, "is prepared for claim default/one")
		time.Sleep(time.Second)
		synctest.Wait()
		r.prepare(two)
		k.put(reserved(two))
		time.Sleep(3 * time.Hour)
		r.holds("3b:00.0 dfl-port.0 240:0")
	})
}

// What counts is what happens between the two answers of the kubelet.
func TestForgottenOrNot(t *testing.T) {
	one := claimOf("one", result("a", "3b:00.0"))
	for _, tc := range []struct {
		name  string
		then  func(*rig, *cluster) // a minute after the first answer, which does not name the claim
		freed bool
	}{
		{"nothing", func(*rig, *cluster) {}, true},
		{"the kubelet names it", func(_ *rig, k *cluster) { k.name(first) }, false},
		{"the kubelet restarts", func(_ *rig, k *cluster) { k.set(func() { k.silent = errors.New("restarts") }) }, false},
		{"the API server fails", func(_ *rig, k *cluster) {
			k.set(func() { k.apiError = apierrors.NewServiceUnavailable("away") })
		}, false},
		{"another pod uses it", func(_ *rig, k *cluster) { k.put(reserved(one)) }, false},
		{"another pod uses it at the last moment", func(_ *rig, k *cluster) {
			k.set(func() { k.onGet = func() { _ = k.Tracker().Add(reserved(one)) } })
		}, false},
		{"the kubelet unprepares it", func(r *rig, _ *cluster) { r.unprepare(one) }, true},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			r := newRig(t, port("3b:00.0", 0))
			k := newCluster(r)
			r.prepare(one)
			r.lines()
			r.start()
			time.Sleep(3 * time.Minute)
			tc.then(r, k)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if tc.freed {
				r.holds()
			} else {
				r.holds("3b:00.0 dfl-port.0 240:0")
			}
		})
	}
}

// After a failure, the next attempt is made ten minutes later, and the failure is logged once.
func TestCompareAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", 0))
		k := newCluster(r)
		k.set(func() { k.apiError = apierrors.NewServiceUnavailable("away") })
		one := claimOf("one", result("a", "3b:00.0"))
		r.prepare(one)
		r.lines()
		r.start()
		time.Sleep(45 * time.Minute)
		k.set(func() { k.apiError = nil })
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		r.holds()
		want := []string{"claim.unchecked claim default/one: away", "claim.forgotten default/one [3b:00.0] the API server has no such claim"}
		compare.Values(t, "log", want, r.lines())
	})
}

// A claim that never got its devices, because one of them had left, can be forgotten as well: its record keeps the
// device listed. The same applies to a claim with admin access. If the waiting claim is prepared in the meantime, it
// stays.
func TestForgottenWaitingClaim(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, port("5e:00.0", 1))
			newCluster(r)
			one, watch := claimOf("one", result("a", "3b:00.0")), claimOf("watch", admin(result("a", "5e:00.0")))
			r.refuseNow(one, "has left the node")
			r.prepare(watch)
			r.start()
			time.Sleep(3 * time.Minute)
			r.holds("3b:00.0")
			want := []string(nil)
			if prepared {
				r.set(port("3b:00.0", 0), port("5e:00.0", 1))
				r.prepare(one)
				want = []string{"3b:00.0 dfl-port.0 240:0"}
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			r.holds(want...)
			if strings.Contains(r.file(), "watch") {
				t.Errorf("file: found %s, want no claim with admin access", r.file())
			}
		})
	}
}

// If the CDI devices of a forgotten claim cannot be removed, its record stays, and no other claim gets the devices.
func TestForgottenClaimKeepsSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, one, two := twoCards(t)
		k := newCluster(r, two)
		r.prepare(one, two)
		k.name(second)
		r.start()
		synctest.Wait()
		path := r.cdi + "/" + specName
		must.Succeed(t, os.Remove(path), os.MkdirAll(path+"/x", 0o700)) // not even root can overwrite it
		time.Sleep(8 * time.Minute)
		r.holds("3b:00.0 dfl-port.0 240:0", "5e:00.0 dfl-port.1 240:1")
		must.Succeed(t, os.RemoveAll(path))
		time.Sleep(time.Hour)
		synctest.Wait()
		r.holds("5e:00.0 dfl-port.1 240:1")
		r.injects(devicesOf(two, "dfl-port.1")...)
	})
}

// Without a client, or without the kubelet's answers, no claim is compared.
func TestNotCompared(t *testing.T) {
	for _, without := range []string{"client", "kubelet"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, port("3b:00.0", 0))
			newCluster(r)
			if without == "client" {
				r.client = nil
			} else {
				r.named = nil
			}
			r.restart()
			r.prepare(claimOf("one", result("a", "3b:00.0")))
			r.start()
			time.Sleep(3 * time.Hour)
			r.holds("3b:00.0 dfl-port.0 240:0")
		})
	}
}
