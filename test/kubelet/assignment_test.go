package kubelet_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// listed waits until the pod-resources API returns these devices of the pods.
func (r *rig) listed(when string, want map[string][]string) {
	r.t.Helper()
	await(r, when, func() map[string][]string {
		got, err := r.kubelet.Listed(r.t.Context())
		r.do(err)
		return got
	}, want)
}

// A pod keeps its devices when container, kubelet and daemon restart, in any order, and its
// container is started with the same settings again. The next pod gets other devices.
func TestAssignmentsAreKept(t *testing.T) {
	for _, name := range []string{
		"container", "kubelet", "daemon",
		"container,kubelet", "container,daemon", "kubelet,daemon", "daemon,kubelet",
		"container,kubelet,daemon", "daemon,kubelet,container",
	} {
		t.Run(name, func(t *testing.T) {
			r := started(t, cardA)
			pod := r.admit("first", r.resource, 1)
			options, err := r.kubelet.Run(t.Context(), pod)
			r.do(err)
			want := runtimeOf(options)
			for _, restarted := range strings.Split(name, ",") {
				switch restarted {
				case "kubelet":
					r.do(r.kubelet.Restart(t.Context()))
				case "daemon":
					r.end(r.daemon)
					r.advertises("no daemon", r.only(2, 0))
					r.daemon = r.startDaemon()
				case "container":
					// Run below starts it again, from the kubelet's checkpoint.
				}
				r.advertises(restarted+" restarted", r.only(2, 2))
				options, err := r.kubelet.Run(t.Context(), pod)
				r.do(err)
				if diff := cmp.Diff(want, runtimeOf(options)); diff != "" {
					t.Errorf("%s restarted: settings of the container (-want +got):\n%s", restarted, diff)
				}
			}
			r.holds(r.admit("second", r.resource, 1), "3b:00.0-p1")
			r.holds(pod, "3b:00.0")
			r.listed("both pods", map[string][]string{"first/main": {"3b:00.0"}, "second/main": {"3b:00.0-p1"}})
		})
	}
}

// The devices of a pod that is deleted while the kubelet is down are free after its restart.
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

// A succeeded pod needs no plugin: a kubelet can restart without one, and the pod's devices are
// free for the next pod.
func TestSucceededPod(t *testing.T) {
	r := started(t, cardA)
	pod := r.admit("job", r.resource, 2)
	r.kubelet.Delete(pod) // for the device manager, a succeeded pod is no longer active
	r.end(r.daemon)
	r.advertises("the daemon has ended", r.only(2, 0))
	r.do(r.kubelet.Restart(t.Context()))
	r.advertises("the kubelet restarts without daemon", r.only(0, 0))
	r.listed("the kubelet restarts without daemon", map[string][]string{})
	r.daemon = r.startDaemon()
	r.advertises("another daemon", r.only(2, 2))
	r.holds(r.admit("next", r.resource, 2), "3b:00.0", "3b:00.0-p1")
}

// The device of an init container is reused by the next container of the pod; a restartable
// init container keeps its device.
func TestRestartableInitContainer(t *testing.T) {
	r := started(t, cardA)
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
		t.Errorf("devices of the containers (-want +got):\n%s", diff)
	}
	r.listed("admitted", map[string][]string{"job/sidecar": {"3b:00.0"}, "job/main": {"3b:00.0-p1"}})
	if err := r.kubelet.Admit(t.Context(), kubelet.NewPod("next", r.resource, 1)); err == nil {
		t.Error("another pod, with no free device: got no error, want one")
	}
}

// The only device becomes unhealthy while a pod holds it: the pod keeps it, capacity stays 1 and
// allocatable is 0, also after the pod was deleted. Then the device recovers.
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
	r.waitLimit()
	r.advertises("the pod was deleted", r.only(1, 0))
	if err := r.kubelet.Admit(t.Context(), kubelet.NewPod("next", r.resource, 1)); err == nil {
		t.Error("another pod, with only a broken device: got no error, want one")
	}
	r.do(r.node.Set(one.Address, 0, "errors/errors", whole))
	r.advertises("recovered", r.only(1, 1))
	r.holds(r.admit("last", r.resource, 1), "3b:00.0")
}
