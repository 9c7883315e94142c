//go:build !kubernetes136

package kubelet

import (
	"context"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// Version is the Kubernetes version that the package is built against.
const Version = "1.37"

func newTopology(nodes []cadvisor.Node, policy string) (topologymanager.Manager, error) {
	return topologymanager.NewManager(klog.Background(), nodes, policy, topologymanager.ContainerTopologyScope, nil)
}

func (k *Kubelet) admit(ctx context.Context, pod *v1.Pod) lifecycle.PodAdmitResult {
	return k.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
}

func (k *Kubelet) capacity(m *devicemanager.ManagerImpl) (capacity, allocatable v1.ResourceList) {
	capacity, allocatable, _ = m.GetCapacity(klog.Background())
	return capacity, allocatable
}

func (k *Kubelet) updateStatus(pod *v1.Pod, status *v1.PodStatus) {
	k.devices.UpdateAllocatedResourcesStatus(klog.Background(), pod, status)
}

// disconnect closes the connection to the resource's plugin on this socket.
func (k *Kubelet) disconnect(ctx context.Context, resource, socket string) {
	k.devices.GetWatcherHandler().DeRegisterPlugin(ctx, resource, socket)
}

// heldDevices gives the pod-resources API access to the device manager's devices.
type heldDevices struct{ manager *devicemanager.ManagerImpl }

func (d heldDevices) UpdateAllocatedDevices(log klog.Logger) { d.manager.UpdateAllocatedDevices(log) }

func (d heldDevices) GetAllocatableDevices(log klog.Logger) []*podresources.ContainerDevices {
	return containerDevices(d.manager.GetAllocatableDevices(log))
}

// nothing gives the pod-resources API empty lists of CPUs, memory and claims.
type nothing struct{}

func (nothing) GetCPUs(*v1.Pod, *v1.Container) []int64 { return nil }
func (nothing) GetPodCPUs(string) []int64              { return nil }
func (nothing) GetAllocatableCPUs() []int64            { return nil }

func (nothing) GetMemory(klog.Logger, *v1.Pod, *v1.Container) []*podresources.ContainerMemory {
	return nil
}
func (nothing) GetPodMemory(klog.Logger, string) []*podresources.ContainerMemory { return nil }
func (nothing) GetAllocatableMemory(klog.Logger) []*podresources.ContainerMemory { return nil }

func (nothing) GetDynamicResources(klog.Logger, *v1.Pod, *v1.Container) []*podresources.DynamicResource {
	return nil
}
