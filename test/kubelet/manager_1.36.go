//go:build kubernetes136

package kubelet

import (
	"context"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// Version is the Kubernetes version that the package is built against.
const Version = "1.36"

func newTopology(nodes []cadvisor.Node, policy string) (topologymanager.Manager, error) {
	return topologymanager.NewManager(nodes, policy, topologymanager.ContainerTopologyScope, nil)
}

func (k *Kubelet) admit(_ context.Context, pod *v1.Pod) lifecycle.PodAdmitResult {
	return k.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
}

func (k *Kubelet) capacity(m *devicemanager.ManagerImpl) (capacity, allocatable v1.ResourceList) {
	capacity, allocatable, _ = m.GetCapacity()
	return capacity, allocatable
}

func (k *Kubelet) updateStatus(pod *v1.Pod, status *v1.PodStatus) {
	k.devices.UpdateAllocatedResourcesStatus(pod, status)
}

// disconnect closes the connection to the resource's plugin. In this version, a resource has only one plugin, so the
// socket doesn't matter.
func (k *Kubelet) disconnect(_ context.Context, resource, socket string) {
	k.devices.GetWatcherHandler().DeRegisterPlugin(resource, socket)
}

// heldDevices gives the pod-resources API access to the device manager's devices.
type heldDevices struct{ manager *devicemanager.ManagerImpl }

func (d heldDevices) UpdateAllocatedDevices() { d.manager.UpdateAllocatedDevices() }

func (d heldDevices) GetAllocatableDevices() []*podresources.ContainerDevices {
	return containerDevices(d.manager.GetAllocatableDevices())
}

// nothing gives the pod-resources API empty lists of CPUs, memory and claims.
type nothing struct{}

func (nothing) GetCPUs(string, string) []int64 { return nil }
func (nothing) GetAllocatableCPUs() []int64    { return nil }

func (nothing) GetMemory(string, string) []*podresources.ContainerMemory { return nil }
func (nothing) GetAllocatableMemory() []*podresources.ContainerMemory    { return nil }

func (nothing) GetDynamicResources(*v1.Pod, *v1.Container) []*podresources.DynamicResource {
	return nil
}
