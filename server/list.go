package server

import (
	"sync/atomic"
	"time"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/inventory"
)

// list is a snapshot that contains only one resource's devices. It is shared by all streams and immutable, except for
// timed.
type list struct {
	inventory.Snapshot
	message *v1beta1.ListAndWatchResponse
	timed   atomic.Bool // latency has been called
}

// newList builds a list of the given devices from the snapshot. devices must be sorted by id.
func newList(snapshot inventory.Snapshot, devices []*inventory.Device) *list {
	snapshot.Devices = devices
	message := &v1beta1.ListAndWatchResponse{Devices: make([]*v1beta1.Device, 0, len(devices))}
	for _, d := range devices {
		sent := &v1beta1.Device{ID: d.ID, Health: v1beta1.Healthy}
		if unhealthy(d) {
			sent.Health = v1beta1.Unhealthy
		}
		if d.NUMANode >= 0 {
			sent.Topology = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: int64(d.NUMANode)}}}
		}
		message.Devices = append(message.Devices, sent)
	}
	return &list{Snapshot: snapshot, message: message}
}

// unhealthy reports whether a device must not be allocated.
func unhealthy(d *inventory.Device) bool { return d.Health >= inventory.Unhealthy }

// visible reports whether a change affects the message to the kubelet, which contains each device's id and NUMA node
// and whether it is healthy.
func visible(c inventory.Change) bool {
	return c.Old == nil || c.New == nil ||
		unhealthy(c.Old) != unhealthy(c.New) || max(c.Old.NUMANode, -1) != max(c.New.NUMANode, -1)
}

// latency returns the time since the hint that led to the list. It returns false if there was no hint, or if latency
// has been called before: when a later stream sends the same list again, the list's age isn't a latency.
func (l *list) latency() (time.Duration, bool) {
	if l.Hinted.IsZero() || l.timed.Swap(true) {
		return 0, false
	}
	return time.Since(l.Hinted), true
}
