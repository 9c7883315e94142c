package kubelet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

const (
	regionName = "region-" + iface
	afNameA    = "af-695.d84.aVKNtusxV3qMNmj5-qCB9thCTcSko8QT-J5DNoP5BAs"
	afNameB    = "af-695.f7d.aVKNtusxV3qMNmj5-qCB9vffQFy9es9yIvFEsLk6zRg"
)

// runtime holds the settings for the devices of a container that the container runtime gets.
type runtime struct {
	Env, Annotations map[string]string
	Nodes, CDI       []string
}

// annotations returns the annotations of an answer: the nodes of 3b:00.0, and other annotations
// as keys and values.
func annotations(nodes string, others ...string) map[string]string {
	all := map[string]string{"nodes.accelerator.b-com.com/3b-00.0": nodes}
	for i := 0; i < len(others); i += 2 {
		all[others[i]] = others[i+1]
	}
	return all
}

func runtimeOf(o *devicemanager.DeviceRunContainerOptions) runtime {
	r := runtime{Env: map[string]string{}, Annotations: map[string]string{}}
	for _, e := range o.Envs {
		r.Env[e.Name] = e.Value
	}
	for _, a := range o.Annotations {
		r.Annotations[a.Name] = a.Value
	}
	for _, d := range o.Devices {
		r.Nodes = append(r.Nodes, d.PathOnHost+" "+d.PathInContainer+" "+d.Permissions)
	}
	for _, d := range o.CDIDevices {
		r.CDI = append(r.CDI, d.Name)
	}
	slices.Sort(r.Nodes)
	slices.Sort(r.CDI)
	return r
}

func units(ids string) map[string]string {
	return map[string]string{"ACCELERATOR_UNITS": ids, "ACCELERATOR_DEVICES": ids}
}

// The settings that a container is started with, in each mode.
func TestAllocation(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags []string
		asks  string // resource name of the pod, without its domain
		held  []string
		want  runtime
	}{
		{"single", nil, "accelerator", []string{"3b:00.0"}, runtime{
			Env: units("3b:00.0"), Annotations: annotations("dfl-port.0,245:0"),
			Nodes: []string{"/dev/dfl-port.0 /dev/dfl-port.0 rw"},
		}},
		{"af", []string{"--mode=af"}, afNameA, []string{"3b:00.0"}, runtime{
			Env: units("3b:00.0"), Annotations: annotations("dfl-port.0,245:0"),
			Nodes: []string{"/dev/dfl-port.0 /dev/dfl-port.0 rw"},
		}},
		{"region", []string{"--mode=region"}, regionName, []string{"3b:00.0"}, runtime{
			Env: units("3b:00.0"), Annotations: annotations("dfl-port.0,dfl-port.1,245:0,245:1", "com.intel.fpga.mode", "fpga.intel.com/region"),
			Nodes: []string{"/dev/dfl-port.0 /dev/dfl-port.0 rw", "/dev/dfl-port.1 /dev/dfl-port.1 rw"},
		}},
		{"regiondevel", []string{"--mode=regiondevel"}, regionName, []string{"3b:00.0"}, runtime{
			Env: units("3b:00.0"), Annotations: annotations("dfl-port.0,dfl-port.1,dfl-fme.0,245:0,245:1,246:0"),
			Nodes: []string{"/dev/dfl-fme.0 /dev/dfl-fme.0 rw", "/dev/dfl-port.0 /dev/dfl-port.0 rw", "/dev/dfl-port.1 /dev/dfl-port.1 rw"},
		}},
		{"pool", []string{"--mode=pool", "--accel-nbunits=1"}, "accelerator", []string{"0"}, runtime{
			Env: units("0"), Annotations: map[string]string{},
		}},
		{"CDI", []string{"--mode=region", "--cdi-dir=CDI"}, regionName, []string{"3b:00.0"}, runtime{
			Env: units("3b:00.0"), Annotations: annotations("dfl-port.0,dfl-port.1,245:0,245:1", "com.intel.fpga.mode", "fpga.intel.com/region"),
			CDI: []string{"DOMAIN/fpga=3b:00.0"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for i, flag := range test.flags {
				test.flags[i] = strings.ReplaceAll(flag, "CDI", t.TempDir())
			}
			// The kubelet chooses the preferred one of the card's two ports.
			r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA}, test.flags...)
			await(r, "advertised", func() bool { return r.kubelet.Advertised()[r.namespace+"/"+test.asks].Allocatable > 0 }, true)
			pod := r.admit("job", r.namespace+"/"+test.asks, 1)
			r.holds(pod, test.held...)
			options, err := r.kubelet.Run(t.Context(), pod)
			r.do(err)
			got := runtimeOf(options)
			for i, name := range got.CDI {
				got.CDI[i] = strings.ReplaceAll(name, r.namespace, "DOMAIN")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("settings for the runtime (-want +got):\n%s", diff)
			}
		})
	}
}

// No pod gets an unhealthy device, or one that another pod holds. The devices of a deleted pod
// are available again.
func TestOnlyFreeHealthyDevices(t *testing.T) {
	r := started(t, cardA, cardB)
	r.do(r.node.Set(cardA.Address, 0, "errors/errors", broken))
	r.advertises("a port is broken", r.only(4, 3))
	first, second := r.admit("first", r.resource, 2), r.admit("second", r.resource, 1)
	r.holds(first, "5e:00.0", "5e:00.0-p1")
	r.holds(second, "3b:00.0-p1")
	third := kubelet.NewPod("third", r.resource, 1)
	err := r.kubelet.Admit(t.Context(), third)
	if err == nil || !strings.Contains(err.Error(), "requested number of devices unavailable") {
		t.Fatalf("third pod, with no free device: got %v, holds %v; want an error", err, r.kubelet.Held(third))
	}
	r.kubelet.Delete(second)
	r.holds(r.admit("third", r.resource, 1), "3b:00.0-p1")
}

// The kubelet calls GetPreferredAllocation and follows the answer. Without the call it would
// choose devices in the order of a map: twenty equal results are no coincidence.
func TestPreferredAllocation(t *testing.T) {
	three := cardB
	three.Ports = 3
	for _, test := range []struct {
		name, policy string
		want         []string
	}{
		{"packed", "packed", []string{"3b:00.0", "3b:00.0-p1"}}, // the tightest fit: the card with two ports
		{"spread", "spread", []string{"3b:00.0", "5e:00.0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, three}, "--allocation-policy", test.policy)
			r.advertises("started", r.only(5, 5))
			for range 20 {
				pod := r.admit("job", r.resource, 2)
				r.holds(pod, test.want...)
				r.kubelet.Delete(pod)
			}
		})
	}
}

// The pod's container must get the device of its init container, too: the kubelet lists it in
// must_include_device_ids.
func TestPreferredAllocationMustInclude(t *testing.T) {
	r := started(t, cardA, cardB)
	for range 20 {
		// 3b:00.0 is held: an init container with one device gets 3b:00.0-p1, the tightest fit.
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
