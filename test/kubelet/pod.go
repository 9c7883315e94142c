package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

// Main is the name of the container that asks for devices.
const Main = "main"

var uids atomic.Int64

// NewPod makes a pod with one container, which asks for so many devices of a
// resource.
func NewPod(name, resource string, devices int64) *v1.Pod {
	uid := types.UID("uid-" + strconv.FormatInt(uids.Add(1), 10))
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{Container(Main, resource, devices)}},
	}
}

// Container is one that asks for so many devices of a resource.
func Container(name, of string, devices int64) v1.Container {
	asked := v1.ResourceList{v1.ResourceName(of): *resource.NewQuantity(devices, resource.DecimalSI)}
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: asked, Requests: asked}}
}

// Admit admits a pod, as the kubelet does: through the topology manager, which asks
// the device manager for hints and then to allocate. It returns why it does not.
func (k *Kubelet) Admit(ctx context.Context, pod *v1.Pod) error {
	k.mu.Lock()
	k.admitted[pod.UID] = pod
	k.mu.Unlock()
	if result := k.admit(ctx, pod); !result.Admit {
		k.Delete(pod)
		return fmt.Errorf("%s: %s", result.Reason, result.Message)
	}
	return nil
}

// Delete ends a pod.
func (k *Kubelet) Delete(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.admitted, pod.UID)
}

// Run returns what the runtime is told when the container of an admitted pod is
// started, also for the second time.
func (k *Kubelet) Run(ctx context.Context, pod *v1.Pod) (*devicemanager.DeviceRunContainerOptions, error) {
	return k.devices.GetDeviceRunContainerOptions(ctx, pod, &pod.Spec.Containers[0])
}

// Held lists the devices of the container of a pod, sorted.
func (k *Kubelet) Held(pod *v1.Pod) []string { return k.HeldBy(pod, Main) }

// HeldBy lists the devices of that container of a pod, sorted.
func (k *Kubelet) HeldBy(pod *v1.Pod, container string) []string {
	var ids []string
	for _, devices := range k.devices.GetDevices(string(pod.UID), container) {
		for id := range devices {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Health is what pod status says of the devices of a pod's container
// (allocatedResourcesStatus): Healthy or Unhealthy, by id.
func (k *Kubelet) Health(pod *v1.Pod) map[string]string {
	status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: Main}}}
	k.updateStatus(pod, &status)
	health := map[string]string{}
	for _, resource := range status.ContainerStatuses[0].AllocatedResourcesStatus {
		for _, device := range resource.Resources {
			health[string(device.ResourceID)] = string(device.Health)
		}
	}
	return health
}

// Told says whether the kubelet was made to write this pod's status anew since it
// was last asked so: without that, nobody sees its health. It looks at no more
// than has come in already, and forgets the other pods.
func (k *Kubelet) Told(pod *v1.Pod) bool {
	told := false
	for {
		select {
		case update := <-k.devices.Updates():
			told = told || slices.Contains(update.PodUIDs, string(pod.UID))
		default:
			return told
		}
	}
}

// Hint is a set of NUMA nodes that devices could come from.
type Hint struct {
	Nodes     []int // nil: any
	Preferred bool
}

// Hints are what the device manager says to the topology manager about the
// container of a pod: where devices of the resource could come from.
func (k *Kubelet) Hints(pod *v1.Pod, resource string) []Hint {
	var hints []Hint
	for _, h := range k.hints(pod, &pod.Spec.Containers[0])[resource] {
		hint := Hint{Preferred: h.Preferred}
		if h.NUMANodeAffinity != nil {
			hint.Nodes = h.NUMANodeAffinity.GetBits()
		}
		hints = append(hints, hint)
	}
	slices.SortFunc(hints, func(a, b Hint) int { return slices.Compare(a.Nodes, b.Nodes) })
	return hints
}
