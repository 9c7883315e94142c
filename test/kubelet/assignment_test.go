package kubelet_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/internal/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// listed waits until the pod-resources API says this of the pods.
func (r *rig) listed(when string, want map[string][]string) {
	r.t.Helper()
	await(r, when, func() map[string][]string {
		got, err := r.kubelet.Listed(r.t.Context())
		r.do(err)
		return got
	}, want)
}

// What a pod was given it keeps, whoever begins anew and in whatever order, and its
// container is started with the same again. The next pod gets something else.
func TestAssignmentsAreKept(t *testing.T) {
	for _, name := range []string{
		"container", "kubelet", "daemon",
		"container,kubelet", "container,daemon", "kubelet,daemon", "daemon,kubelet",
		"container,kubelet,daemon", "daemon,kubelet,container",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
			r.advertises("started", r.only(2, 2))
			pod := r.admit("first", r.resource, 1)
			given, err := r.kubelet.Run(t.Context(), pod)
			r.do(err)
			want := runtimeOf(given)
			for _, who := range strings.Split(name, ",") {
				switch who {
				case "kubelet":
					r.do(r.kubelet.Restart(t.Context()))
				case "daemon":
					r.end(r.daemon)
					r.advertises("no daemon", r.only(2, 0))
					r.daemon = r.another()
				case "container":
					// It is started anew from what the kubelet remembers.
				}
				r.advertises(who+" restarted", r.only(2, 2))
				given, err := r.kubelet.Run(t.Context(), pod)
				r.do(err)
				if diff := cmp.Diff(want, runtimeOf(given)); diff != "" {
					t.Errorf("%s restarted: the container is started with (-want +got):\n%s", who, diff)
				}
			}
			r.holds(r.admit("second", r.resource, 1), "3b:00.0-p1")
			r.holds(pod, "3b:00.0")
			r.listed("both pods", map[string][]string{"first/main": {"3b:00.0"}, "second/main": {"3b:00.0-p1"}})
		})
	}
}

// A pod that is deleted while the kubelet is down leaves nothing behind.
func TestPodDeletedWithoutKubelet(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	pod := r.admit("job", r.resource, 2)
	r.do(r.kubelet.Stop())
	r.kubelet.Delete(pod)
	r.do(r.kubelet.Resume(t.Context()))
	r.listed("kubelet restarted", map[string][]string{})
	r.promptly("kubelet restarts: its pod was deleted meanwhile", r.only(2, 2))
	r.holds(r.admit("next", r.resource, 2), "3b:00.0", "3b:00.0-p1")
}

// A pod that has succeeded needs no plugin any more: it is not in the way of a kubelet
// that restarts without one, and its device is the next pod's.
func TestSucceededPod(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	pod := r.admit("job", r.resource, 2)
	r.kubelet.Delete(pod) // for the device manager: it is active no longer
	r.end(r.daemon)
	r.advertises("the daemon has gone", r.only(2, 0))
	r.do(r.kubelet.Restart(t.Context()))
	r.advertises("the kubelet restarts without daemon", r.only(0, 0))
	r.listed("the kubelet restarts without daemon", map[string][]string{})
	r.daemon = r.another()
	r.advertises("another daemon", r.only(2, 2))
	r.holds(r.admit("next", r.resource, 2), "3b:00.0", "3b:00.0-p1")
}

// An init container's device goes to the next container of the pod; an init container
// that goes on running keeps its own.
func TestRestartableInitContainer(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	pod := kubelet.NewPod("job", r.resource, 1)
	sidecar := kubelet.Container("sidecar", r.resource, 1)
	always := v1.ContainerRestartPolicyAlways
	sidecar.RestartPolicy = &always
	pod.Spec.InitContainers = []v1.Container{kubelet.Container("init", r.resource, 1), sidecar}
	r.do(r.kubelet.Admit(t.Context(), pod))
	got := map[string][]string{}
	for _, name := range []string{"init", "sidecar", kubelet.Main} {
		got[name] = r.kubelet.HeldBy(pod, name)
	}
	want := map[string][]string{"init": {"3b:00.0"}, "sidecar": {"3b:00.0"}, kubelet.Main: {"3b:00.0-p1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the containers hold (-want +got):\n%s", diff)
	}
	r.listed("admitted", map[string][]string{"job/sidecar": {"3b:00.0"}, "job/main": {"3b:00.0-p1"}})
	if err := r.kubelet.Admit(t.Context(), kubelet.NewPod("next", r.resource, 1)); err == nil {
		t.Error("another pod gets a device, where none is left")
	}
}

// The only device breaks under a pod: the pod keeps it, capacity stays, nothing is
// allocatable, nor when the pod has gone; then it is well again.
func TestOnlyDeviceBreaksUnderPod(t *testing.T) {
	t.Parallel()
	one := cardA
	one.Ports = 1
	r := newRig(t, kubelet.Settings{}, []simnode.Card{one})
	r.advertises("started", r.only(1, 1))
	pod := r.admit("job", r.resource, 1)
	r.advertises("admitted", r.only(1, 1))
	r.do(r.node.Set(one.Address, 0, "errors/errors", broken))
	r.advertises("broken", r.only(1, 0))
	r.holds(pod, "3b:00.0")
	r.health("broken", pod, map[string]string{"3b:00.0": unhealthy})
	r.kubelet.Delete(pod)
	r.afterwards()
	r.advertises("the pod has gone", r.only(1, 0))
	if err := r.kubelet.Admit(t.Context(), kubelet.NewPod("next", r.resource, 1)); err == nil {
		t.Error("another pod gets the broken device")
	}
	r.do(r.node.Set(one.Address, 0, "errors/errors", whole))
	r.advertises("well again", r.only(1, 1))
	r.holds(r.admit("last", r.resource, 1), "3b:00.0")
}
