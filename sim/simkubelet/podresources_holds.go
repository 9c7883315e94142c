package simkubelet

import (
	"slices"
	"strings"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// hold is a device that a container holds. If it belongs to a claim, resource is the DRA driver's name, and claim is
// the claim's name.
type hold struct{ namespace, pod, container, resource, id, claim string }

// Hold makes the container hold more devices.
func (p *PodResources) Hold(namespace, pod, container, resource string, ids ...string) {
	p.change(func() {
		for _, id := range ids {
			p.holds = append(p.holds, hold{namespace, pod, container, resource, id, ""})
		}
	})
}

// HoldClaim makes the container hold a claim's devices. devices contains the devices' names in the pool.
func (p *PodResources) HoldClaim(namespace, pod, container, claim, driver string, devices ...string) {
	p.change(func() {
		for _, device := range devices {
			p.holds = append(p.holds, hold{namespace, pod, container, driver, device, claim})
		}
	})
}

// Release makes the pod give up all of its devices. After [PodResources.Join], the device manager forgets the pod's
// allocations at the next List, and they disappear from the [Checkpoint] when the file is next written.
func (p *PodResources) Release(namespace, pod string) {
	p.change(func() {
		var released []hold
		p.holds = slices.DeleteFunc(p.holds, func(h hold) bool {
			ends := h.namespace == namespace && h.pod == pod
			if ends {
				released = append(released, h)
			}
			return ends
		})
		for _, h := range released {
			other := slices.ContainsFunc(p.holds, func(o hold) bool { return o.resource == h.resource && o.id == h.id })
			if p.kubelet == nil || other || h.claim != "" {
				continue
			}
			for _, uid := range p.kubelet.podsOf(h.resource, h.id) {
				p.ended[uid] = true
			}
		}
	})
}

// Join makes k and p parts of the same kubelet: a device's allocation in k belongs to the pod that holds the device in
// p. An allocation that no pod ever holds, such as an init container's, lasts until [Kubelet.End]. If k or p is
// restarted, call Join again.
func (p *PodResources) Join(k *Kubelet) {
	p.change(func() { p.kubelet = k })
}

// answer returns List's response, which doesn't share any memory with holds.
func answer(holds []hold, b PodBehaviour) []*podresources.PodResources {
	var pods []*podresources.PodResources
	if !b.Nothing {
		pods = listPods(holds)
	}
	if b.Garbage {
		pods = append(pods, garbage(holds)...)
	}
	return pods
}

// listPods returns the response that a kubelet would send: an entry per pod, with a separate entry for each of the
// pod's devices (pkg/kubelet/apis/podresources, and containerDevicesFromResourceDeviceInstances and GetDynamicResources
// in pkg/kubelet/cm). A real kubelet returns a single entry for all of a claim's devices, but that makes no difference
// here.
func listPods(holds []hold) []*podresources.PodResources {
	var pods []*podresources.PodResources
	for _, h := range holds {
		i := slices.IndexFunc(pods, func(p *podresources.PodResources) bool { return p.Namespace == h.namespace && p.Name == h.pod })
		if i < 0 {
			i = len(pods)
			pods = append(pods, &podresources.PodResources{Namespace: h.namespace, Name: h.pod})
		}
		pod := pods[i]
		i = slices.IndexFunc(pod.Containers, func(c *podresources.ContainerResources) bool { return c.Name == h.container })
		if i < 0 {
			i = len(pod.Containers)
			pod.Containers = append(pod.Containers, &podresources.ContainerResources{Name: h.container})
		}
		container := pod.Containers[i]
		if h.claim != "" {
			container.DynamicResources = append(container.DynamicResources, &podresources.DynamicResource{
				ClaimNamespace: h.namespace, ClaimName: h.claim,
				ClaimResources: []*podresources.ClaimResource{{DriverName: h.resource, DeviceName: h.id}},
			})
			continue
		}
		container.Devices = append(container.Devices, &podresources.ContainerDevices{ResourceName: h.resource, DeviceIds: []string{h.id}})
	}
	return pods
}

// garbage returns entries that no kubelet would return: all pods a second time; empty and nil pods, containers and
// devices; and names and IDs that are too long or contain invalid characters. These IDs also appear under the resources
// in holds, where a reader that doesn't check IDs would accept them.
func garbage(holds []hold) []*podresources.PodResources {
	long := strings.Repeat("x", 10_000)
	ids := []string{"", "\x00", "3b:00.0\x00", "\n", "../../etc", "\u202e", long}
	devices := []*podresources.ContainerDevices{nil, {}, {ResourceName: "\x00", DeviceIds: ids}, {ResourceName: long, DeviceIds: ids}}
	listed := map[string]bool{}
	for _, h := range holds {
		if !listed[h.resource] {
			devices = append(devices, &podresources.ContainerDevices{ResourceName: h.resource, DeviceIds: slices.Concat(ids, ids)})
		}
		listed[h.resource] = true
	}
	junk := []*podresources.ContainerResources{nil, {}, {Name: long}, {Name: "a\x00b", Devices: devices}}
	return append(listPods(holds),
		nil,
		&podresources.PodResources{},
		&podresources.PodResources{Namespace: "\x00", Name: long, Containers: junk},
		&podresources.PodResources{Namespace: long, Name: "\x1b[31m", Containers: junk},
	)
}
