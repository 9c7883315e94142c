package main

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// amount is a resource's capacity and allocatable number in the node's status. Both are -1 if the resource isn't
// listed.
type amount struct{ Capacity, Allocatable int64 }

// advertised returns a resource's amount in the node's status.
func (s *scene) advertised(resource string) (amount, error) {
	node, err := s.Node(s.ctx)
	if err != nil {
		return amount{}, err
	}
	count := func(list corev1.ResourceList) int64 {
		quantity, ok := list[corev1.ResourceName(resource)]
		if !ok {
			return -1
		}
		return quantity.Value()
	}
	return amount{count(node.Status.Capacity), count(node.Status.Allocatable)}, nil
}

// awaitAdvertised waits until the node advertises this amount of a resource, and returns how long it took.
func (s *scene) awaitAdvertised(resource string, capacity, allocatable int64) time.Duration {
	return await(s, "node status of "+resource, func() (amount, error) { return s.advertised(resource) }, amount{capacity, allocatable})
}

// awaitAdvertisedSoon is like [scene.awaitAdvertised], for use after a pod that held a device has ended. The story
// fails if the wait takes longer than [soon].
func (s *scene) awaitAdvertisedSoon(resource string, capacity, allocatable int64) {
	if took := s.awaitAdvertised(resource, capacity, allocatable); took > soon {
		s.failf("node status of %s is {%d %d} after %v, want it within %v after the pod's end", resource, capacity, allocatable, took, soon)
	}
}

// soon is how long a device can still count as held after its pod has ended, because the daemon lists the kubelet's
// pods only every 10 s.
const soon = 15 * time.Second

// kubelet returns a client for the kubelet's pod-resources API.
func (s *scene) kubelet() podresources.PodResourcesListerClient {
	connection := must(grpc.NewClient("unix:///var/lib/kubelet/pod-resources/kubelet.sock", grpc.WithTransportCredentials(insecure.NewCredentials())))
	s.cleanups = append(s.cleanups, func() { connection.Close() })
	return podresources.NewPodResourcesListerClient(connection)
}

// samples contains the results of sampling a resource during an action.
type samples struct {
	Node, Kubelet count // node status, every 100 ms; device manager, every 20 ms
}

// count counts samples.
type count struct {
	All, Less int           // number of samples, and how many of them had fewer than all devices
	Gap       time.Duration // longest time with fewer than all devices
}

// sampled calls do and, while it runs, samples whether `want` devices are allocatable.
func (s *scene) sampled(want int64, do func()) samples {
	var seen samples
	kubelet := s.kubelet()
	s.during(do, func(ctx context.Context) {
		seen.Node = sample(ctx, 100*time.Millisecond, want, func() (int64, error) {
			a, err := s.advertised(s.resource)
			return a.Allocatable, err
		})
	}, func(ctx context.Context) {
		seen.Kubelet = sample(ctx, 20*time.Millisecond, want, func() (int64, error) { return s.allocatable(ctx, kubelet) })
	})
	return seen
}

// always is like sampled, but ends the story if any sample shows a different number of devices.
func (s *scene) always(want int64, do func()) {
	seen := s.sampled(want, do)
	if seen.Kubelet.All == 0 || seen.Kubelet.Less+seen.Node.Less > 0 {
		s.failf("found samples with another number of allocatable devices than %d: device manager %+v, node status %+v", want, seen.Kubelet, seen.Node)
	}
	s.step("  %d allocatable in %d samples of node status, %d of the device manager", want, seen.Node.All, seen.Kubelet.All)
}

// sample calls read at regular intervals until ctx is done, and counts the results.
func sample(ctx context.Context, every time.Duration, want int64, read func() (int64, error)) count {
	var c count
	var since time.Time // when the current gap began
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		got, err := read()
		if ctx.Err() != nil {
			return c
		}
		c.All++
		switch {
		case err == nil && got == want:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
			c.Less++
		default:
			c.Less++
			c.Gap = max(c.Gap, time.Since(since))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c
		}
	}
}

// allocatable returns how many devices the kubelet's device manager can allocate.
func (s *scene) allocatable(ctx context.Context, kubelet podresources.PodResourcesListerClient) (int64, error) {
	return s.allocatableOf(ctx, kubelet, s.resource)
}

func (s *scene) allocatableOf(ctx context.Context, kubelet podresources.PodResourcesListerClient, resource string) (int64, error) {
	all, err := kubelet.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return -1, err
	}
	n := int64(0)
	for _, devices := range all.Devices {
		if devices.ResourceName == resource {
			n += int64(len(devices.DeviceIds))
		}
	}
	return n, nil
}

// heldDevices returns the devices of the story's resource that the story's containers hold, according to the kubelet.
// It maps POD/CONTAINER to sorted IDs.
func (s *scene) heldDevices(kubelet podresources.PodResourcesListerClient) (map[string][]string, error) {
	list, err := kubelet.List(s.ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	held := map[string][]string{}
	for _, pod := range list.PodResources {
		for _, container := range pod.Containers {
			for _, devices := range container.Devices {
				if pod.Namespace != s.users || devices.ResourceName != s.resource {
					continue
				}
				name := pod.Name + "/" + container.Name
				held[name] = append(held[name], devices.DeviceIds...)
				slices.Sort(held[name])
			}
		}
	}
	return held, nil
}
