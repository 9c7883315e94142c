package server

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/offer"
)

// list is what one resource offers at one moment. It is immutable but for its
// latency, and shared by all streams.
type list struct {
	units   []offer.Unit // sorted by id
	message *v1beta1.ListAndWatchResponse
	rev     uint64    // version of the snapshot
	hinted  time.Time // when the hint behind it arrived; zero: there was none
	timed   atomic.Bool
}

func newList(snapshot inventory.Snapshot, units []offer.Unit) *list {
	return &list{units: units, message: message(units), rev: snapshot.Version, hinted: snapshot.Hinted}
}

// message is the list as the kubelet is told it.
func message(units []offer.Unit) *v1beta1.ListAndWatchResponse {
	m := &v1beta1.ListAndWatchResponse{Devices: make([]*v1beta1.Device, 0, len(units))}
	for _, u := range units {
		d := &v1beta1.Device{ID: u.ID, Health: health(u)}
		if u.NUMANode >= 0 {
			d.Topology = &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: int64(u.NUMANode)}}}
		}
		m.Devices = append(m.Devices, d)
	}
	return m
}

// health is the unit's health in the kubelet's words: what is not unhealthy is
// offered.
func health(u offer.Unit) string {
	if u.Health >= inventory.Unhealthy {
		return v1beta1.Unhealthy
	}
	return v1beta1.Healthy
}

// says is whether the kubelet would be told the same by l and by o. Reasons and
// nodes may differ: the kubelet does not hear of them.
func (l *list) says(o *list) bool {
	return l == o || slices.EqualFunc(l.units, o.units, alike)
}

// alike is whether the kubelet is told the same of both.
func alike(a, b offer.Unit) bool {
	return a.ID == b.ID && health(a) == health(b) && max(a.NUMANode, -1) == max(b.NUMANode, -1)
}

// news is what a list says to a stream that it did not know yet: ids, sorted.
type news struct {
	devices   []string // of which it says something else, or which it has no more; none on a stream's first list
	unhealthy []string // those of them that it says are unhealthy; on a stream's first list, all that are
	gone      []string // those of them that are not on it
}

// newsOf is what l says to a stream that was told before, nil if nothing.
func (l *list) newsOf(before *list) news {
	var n news
	judge := func(u offer.Unit) {
		if u.Health >= inventory.Unhealthy {
			n.unhealthy = append(n.unhealthy, u.ID)
		}
	}
	if before == nil {
		for _, u := range l.units {
			judge(u)
		}
		return n
	}
	say := func(u offer.Unit) {
		n.devices = append(n.devices, u.ID)
		judge(u)
	}
	old, now := before.units, l.units
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(old) > 0 && old[0].ID < now[0].ID: // gone
			n.devices, n.gone = append(n.devices, old[0].ID), append(n.gone, old[0].ID)
			old = old[1:]
		case len(old) == 0 || now[0].ID < old[0].ID: // new
			say(now[0])
			now = now[1:]
		default:
			if !alike(old[0], now[0]) {
				say(now[0])
			}
			old, now = old[1:], now[1:]
		}
	}
	return n
}

// unit returns the unit with this id.
func (l *list) unit(id string) (offer.Unit, bool) {
	i, ok := slices.BinarySearchFunc(l.units, id, func(u offer.Unit, id string) int { return strings.Compare(u.ID, id) })
	if !ok {
		return offer.Unit{}, false
	}
	return l.units[i], true
}

// latency is how long the news took to get here, once per list: a stream that is
// opened later is sent old news, and its age says nothing.
func (l *list) latency() (time.Duration, bool) {
	if l.hinted.IsZero() || l.timed.Swap(true) {
		return 0, false
	}
	return time.Since(l.hinted), true
}
