package simkubelet

import (
	"slices"
	"strings"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// hold is one device in the hands of one container.
type hold struct{ namespace, pod, container, resource, id string }

// Hold has the container hold these devices from now on, beside those that it
// holds already.
func (p *PodResources) Hold(namespace, pod, container, resource string, ids ...string) {
	p.change(func() {
		for _, id := range ids {
			p.holds = append(p.holds, hold{namespace, pod, container, resource, id})
		}
	})
}

// Release has the containers of the pod hold nothing any more.
func (p *PodResources) Release(namespace, pod string) {
	p.change(func() {
		p.holds = slices.DeleteFunc(p.holds, func(h hold) bool { return h.namespace == namespace && h.pod == pod })
	})
}

// answer is what is said of the holds. It shares nothing with them.
func answer(holds []hold, b PodBehaviour) []*podresources.PodResources {
	var pods []*podresources.PodResources
	if !b.Nothing {
		pods = truth(holds)
	}
	if b.Garbage {
		pods = append(pods, garbage(holds)...)
	}
	return pods
}

// truth says what the kubelet would: a pod once, and each of its devices in an
// entry of its own (pkg/kubelet/apis/podresources, and
// containerDevicesFromResourceDeviceInstances in pkg/kubelet/cm).
func truth(holds []hold) []*podresources.PodResources {
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
		container.Devices = append(container.Devices, &podresources.ContainerDevices{ResourceName: h.resource, DeviceIds: []string{h.id}})
	}
	return pods
}

// garbage is what no kubelet would say: every pod again, pods, containers and
// devices that are nothing at all, and names and ids that are too long or hold
// what no name holds. Ids like that are also said to be of the resources that
// are held: who believes garbage, believes it there.
func garbage(holds []hold) []*podresources.PodResources {
	long := strings.Repeat("x", 10_000)
	ids := []string{"", "\x00", "3b:00.0\x00", "\n", "../../etc", "\u202e", long}
	devices := []*podresources.ContainerDevices{nil, {}, {ResourceName: "\x00", DeviceIds: ids}, {ResourceName: long, DeviceIds: ids}}
	said := map[string]bool{}
	for _, h := range holds {
		if !said[h.resource] {
			devices = append(devices, &podresources.ContainerDevices{ResourceName: h.resource, DeviceIds: slices.Concat(ids, ids)})
		}
		said[h.resource] = true
	}
	junk := []*podresources.ContainerResources{nil, {}, {Name: long}, {Name: "a\x00b", Devices: devices}}
	return append(truth(holds),
		nil,
		&podresources.PodResources{},
		&podresources.PodResources{Namespace: "\x00", Name: long, Containers: junk},
		&podresources.PodResources{Namespace: long, Name: "\x1b[31m", Containers: junk},
	)
}
