package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	server "k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// serve serves the pod-resources API until Stop.
func (k *Kubelet) serve(ctx context.Context) error {
	if err := os.Remove(k.Pods); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pod-resources socket: %w", err)
	}
	listener, err := net.Listen("unix", k.Pods)
	if err != nil {
		return fmt.Errorf("pod-resources socket: %w", err)
	}
	k.api = grpc.NewServer(grpc.WaitForHandlers(true))
	podresources.RegisterPodResourcesListerServer(k.api, server.NewV1PodResourcesServer(ctx, server.PodResourcesProviders{
		Pods: k, Devices: heldDevices{k.devices}, Cpus: nothing{}, Memory: nothing{}, DynamicResources: nothing{},
	}))
	k.serving.Go(func() {
		// Serve doesn't return until the server has been stopped.
		_ = k.api.Serve(listener)
	})
	return nil
}

// Listed returns the devices that containers hold according to the pod-resources API, keyed by POD/CONTAINER.
func (k *Kubelet) Listed(ctx context.Context) (map[string][]string, error) {
	conn, err := grpc.NewClient("unix:"+k.Pods, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	held := map[string][]string{}
	for _, pod := range answer.PodResources {
		for _, container := range pod.Containers {
			var ids []string
			for _, devices := range container.Devices {
				ids = append(ids, devices.DeviceIds...)
			}
			slices.Sort(ids)
			if len(ids) > 0 {
				held[pod.Name+"/"+container.Name] = ids
			}
		}
	}
	return held, nil
}

// GetDevices returns a container's devices for the pod-resources API.
func (d heldDevices) GetDevices(podUID, container string) []*podresources.ContainerDevices {
	return containerDevices(d.manager.GetDevices(podUID, container))
}

// containerDevices returns the entries in the kubelet's response: one per NUMA node and device. It is a copy of an
// unexported function in pkg/kubelet/cm.
func containerDevices(of devicemanager.ResourceDeviceInstances) []*podresources.ContainerDevices {
	var all []*podresources.ContainerDevices
	for resource, devices := range of {
		for id, device := range devices {
			one := podresources.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}}
			if device.GetTopology() == nil {
				all = append(all, &one)
				continue
			}
			for _, node := range device.GetTopology().GetNodes() {
				all = append(all, &podresources.ContainerDevices{
					ResourceName: resource, DeviceIds: []string{id},
					Topology: &podresources.TopologyInfo{Nodes: []*podresources.NUMANode{{ID: node.GetID()}}},
				})
			}
		}
	}
	return all
}

// countRegistrations registers the kubelet's metric about plugins' registrations, which doesn't count anything until
// then.
var countRegistrations = sync.OnceFunc(func() { legacyregistry.MustRegister(metrics.DevicePluginRegistrationCount) })

// Registrations returns how often Register has been called for the resource, according to the kubelet's own metric. The
// metric counts the calls to all of this process's kubelets, including calls from before restarts.
func Registrations(resource string) (int, error) {
	n, err := testutil.GetCounterMetricValue(metrics.DevicePluginRegistrationCount.WithLabelValues(resource))
	return int(n), err
}
