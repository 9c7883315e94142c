package simkubelet

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// List is a received list of devices.
type List struct {
	Number   int // starts at 1 for each resource
	Devices  []Device
	Received time.Time
}

// Device is an entry in a list.
type Device struct {
	ID       string
	Healthy  bool
	NUMANode int // -1: none
}

// Device returns the entry with the given ID.
func (l List) Device(id string) (Device, bool) {
	for _, d := range l.Devices {
		if d.ID == id {
			return d, true
		}
	}
	return Device{}, false
}

// record stores a received message as the resource's latest list.
func (k *Kubelet) record(resource string, m *v1beta1.ListAndWatchResponse, received time.Time) {
	devices := make([]Device, 0, len(m.Devices))
	for _, d := range m.Devices {
		device := Device{ID: d.ID, Healthy: d.Health == v1beta1.Healthy, NUMANode: -1}
		if nodes := d.Topology.GetNodes(); len(nodes) > 0 {
			device.NUMANode = int(nodes[0].ID)
		}
		devices = append(devices, device)
	}
	k.change(func() {
		k.lists[resource] = List{Number: k.lists[resource].Number + 1, Devices: devices, Received: received}
		k.open[resource] = k.lists[resource]
		_ = k.writeCheckpoint() // the device manager's genericDeviceUpdateCallback only logs the error too
		k.callFollower()
	})
}

// Follow calls f with the latest list of each resource that has an open stream: immediately, and then, in order,
// whenever a list is received or a stream ends. f must not keep the map or call the kubelet's methods.
func (k *Kubelet) Follow(f func(map[string]List)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.follower = f
	k.callFollower()
}

// callFollower calls the function passed to Follow. The caller must hold mu.
func (k *Kubelet) callFollower() {
	if k.follower != nil {
		k.follower(k.open)
	}
}

// AwaitLists waits until wanted returns true for the latest lists of all resources with an open stream. It returns
// those lists, keyed by resource.
func (k *Kubelet) AwaitLists(ctx context.Context, wanted func(map[string]List) bool) (map[string]List, error) {
	var newest map[string]List
	err := k.await(ctx, func() bool {
		newest = maps.Clone(k.open)
		return wanted(newest)
	})
	if err != nil {
		return newest, fmt.Errorf("waiting for the lists of all resources: found %d: %w", len(newest), err)
	}
	return newest, nil
}

// Newest returns the resource's latest list, or the zero List if there is none.
func (k *Kubelet) Newest(resource string) List {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists[resource]
}

// AwaitList waits until wanted returns true for the resource's latest list.
func (k *Kubelet) AwaitList(ctx context.Context, resource string, wanted func(List) bool) (List, error) {
	var newest List
	err := k.await(ctx, func() bool {
		newest = k.lists[resource]
		return newest.Number > 0 && wanted(newest)
	})
	if err != nil {
		return newest, fmt.Errorf("waiting for a list of %s: found number %d with %d devices: %w",
			resource, newest.Number, len(newest.Devices), err)
	}
	return newest, nil
}

// Registrations returns how often Register has been called for the resource, including calls that were rejected.
func (k *Kubelet) Registrations(resource string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registrations[resource]
}

// AwaitRegistrations waits until Register has been called n times for the resource.
func (k *Kubelet) AwaitRegistrations(ctx context.Context, resource string, n int) error {
	err := k.await(ctx, func() bool { return k.registrations[resource] >= n })
	if err != nil {
		return fmt.Errorf("waiting for registration %d of %s: found %d: %w", n, resource, k.Registrations(resource), err)
	}
	return nil
}

// await waits until met returns true. It calls met with mu held.
func (k *Kubelet) await(ctx context.Context, met func() bool) error {
	return k.state.await(ctx, k.ctx, met)
}

// Plugin returns a client that tests can use to call the resource's newest plugin as a kubelet would.
func (k *Kubelet) Plugin(resource string) (v1beta1.DevicePluginClient, error) {
	p, err := k.newest(resource)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// newest returns the resource's newest plugin.
func (k *Kubelet) newest(resource string) (*plugin, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	plugins := k.plugins[resource]
	if len(plugins) == 0 {
		return nil, fmt.Errorf("resource %s: no plugin is registered", resource)
	}
	return plugins[len(plugins)-1], nil
}

// Allocate asks the resource's newest plugin to allocate the devices to a container, and writes the response to the
// [Checkpoint].
func (k *Kubelet) Allocate(ctx context.Context, resource string, ids ...string) (*v1beta1.ContainerAllocateResponse, error) {
	p, err := k.Plugin(resource)
	if err != nil {
		return nil, err
	}
	answer, err := p.Allocate(ctx, &v1beta1.AllocateRequest{
		ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	if err != nil {
		return nil, err
	}
	if n := len(answer.ContainerResponses); n != 1 {
		return nil, fmt.Errorf("Allocate: found %d answers to one request, want 1", n)
	}
	given := answer.ContainerResponses[0]
	return given, k.Allocated(resource, given, ids...)
}

// CutStream ends the stream of the resource's newest plugin and closes the connection to the plugin.
func (k *Kubelet) CutStream(resource string) {
	if p, err := k.newest(resource); err == nil {
		p.cut()
	}
}
