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
)

// Main is the name of the container in pods from [NewPod].
const Main = "main"

var uids atomic.Int64

// NewPod returns a pod with a single container that requests the given number of devices from a resource.
func NewPod(name, resource string, devices int64) *v1.Pod {
	uid := types.UID("uid-" + strconv.FormatInt(uids.Add(1), 10))
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{Container(Main, resource, devices)}},
	}
}

// Container returns a container that requests the given number of devices from a resource.
func Container(name, of string, devices int64) v1.Container {
	requested := v1.ResourceList{v1.ResourceName(of): *resource.NewQuantity(devices, resource.DecimalSI)}
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: requested, Requests: requested}}
}

// Admit admits a pod as the kubelet does: through the topology manager, which gets hints from the device manager and
// then tells it to allocate devices. If the pod is rejected, the error says why.
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

// Delete removes a pod from the active pods.
func (k *Kubelet) Delete(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.admitted, pod.UID)
}

// Held returns the devices that a pod's [Main] container holds, sorted.
func (k *Kubelet) Held(pod *v1.Pod) []string {
	var ids []string
	for _, devices := range k.devices.GetDevices(string(pod.UID), Main) {
		for id := range devices {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Health returns the health (Healthy or Unhealthy) of the devices that a pod's [Main] container holds, keyed by device
// ID, as it would appear in the pod's status (allocatedResourcesStatus).
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

// StatusUpdated reports whether the device manager has requested an update of this pod's status since the previous
// call. Without such a request, the status keeps the old health. StatusUpdated reads all pending requests without
// blocking, and discards those for other pods.
func (k *Kubelet) StatusUpdated(pod *v1.Pod) bool {
	updated := false
	for {
		select {
		case update := <-k.devices.Updates():
			updated = updated || slices.Contains(update.PodUIDs, string(pod.UID))
		default:
			return updated
		}
	}
}
