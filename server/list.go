package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/inventory"
)

// list is what one resource offers at one moment: a snapshot that has the devices of that
// resource alone. It is immutable but for timed, and shared by all streams.
type list struct {
	inventory.Snapshot
	message *v1beta1.ListAndWatchResponse
	timed   atomic.Bool // the latency was taken
}

// newList returns the list of those devices of the snapshot that a resource has, sorted
// by id.
func newList(snapshot inventory.Snapshot, devices []*inventory.Device) *list {
	snapshot.Devices = devices
	message := &v1beta1.ListAndWatchResponse{Devices: make([]*v1beta1.Device, 0, len(devices))}
	for _, d := range devices {
		told := &v1beta1.Device{ID: d.ID, Health: v1beta1.Healthy}
		if unhealthy(d) {
			told.Health = v1beta1.Unhealthy
		}
		if d.NUMANode >= 0 {
			told.Topology = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: int64(d.NUMANode)}}}
		}
		message.Devices = append(message.Devices, told)
	}
	return &list{Snapshot: snapshot, message: message}
}

// unhealthy reports whether a device may not be given to a container.
func unhealthy(d *inventory.Device) bool { return d.Health >= inventory.Unhealthy }

// heard reports whether the kubelet hears of a change: it knows of a device the id, whether
// it is healthy, and the NUMA node.
func heard(c inventory.Change) bool {
	return c.Old == nil || c.New == nil ||
		unhealthy(c.Old) != unhealthy(c.New) || max(c.Old.NUMANode, -1) != max(c.New.NUMANode, -1)
}

// latency returns the time since the hint behind the list, once per list: a stream that is
// opened later is sent old news, the age of which means nothing.
func (l *list) latency() (time.Duration, bool) {
	if l.Hinted.IsZero() || l.timed.Swap(true) {
		return 0, false
	}
	return time.Since(l.Hinted), true
}

// goneLimit bounds the removed ids that an endpoint keeps.
const goneLimit = 1024

// gone has the ids that were listed once and are no more, so that a refusal can tell them
// from unknown ones. The oldest are dropped first.
type gone struct {
	mu  sync.Mutex
	ids []string // oldest first
}

// follow adds the devices that left and removes those that returned.
func (g *gone) follow(changes []inventory.Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range changes {
		if c.New == nil {
			g.ids = append(g.ids, c.ID)
		} else if i := slices.Index(g.ids, c.ID); c.Old == nil && i >= 0 {
			g.ids = slices.Delete(g.ids, i, i+1)
		}
	}
	g.ids = slices.Delete(g.ids, 0, max(0, len(g.ids)-goneLimit))
}

// has reports whether the id was listed once and is no more.
func (g *gone) has(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.ids, id)
}
