package timeline

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// node is the state of one pod or host. Lines before Since also change it, because they show the state
// of the devices at Since.
type node struct {
	origin    string    // "": the lines have no prefix with a pod or host
	mode      string    // of the newest daemon in the log
	last      time.Time // of the last line
	devices   map[string]*device
	resources map[string]*Resource
}

// device is one device.
type device struct {
	Device
	resource string
	seen     bool // the newest daemon has logged a line about it
	missed   bool // it was present before the newest daemon started, whose first scan did not find it
	removed  bool // it was removed, and a device.tombstone line may follow
}

// node returns the node of an origin. If there are maxNodes nodes, all new origins share one node.
func (r *Reader) node(origin string) *node {
	if r.nodes[origin] == nil && len(r.nodes) >= maxNodes {
		origin = "others"
	}
	n := r.nodes[origin]
	if n == nil {
		n = &node{origin: origin, devices: map[string]*device{}, resources: map[string]*Resource{}}
		r.nodes[origin] = n
	}
	return n
}

// device returns a node's device. It returns nil if the device is new and there is no room for it.
func (r *Reader) device(n *node, id string) *device {
	d := n.devices[id]
	if d == nil && r.room(id) {
		d = &device{Device: Device{Origin: n.origin, ID: id}}
		n.devices[id] = d
	}
	return d
}

// resource returns a node's resource. It returns nil if the resource is new and there is no room for it.
func (r *Reader) resource(n *node, name string) *Resource {
	s := n.resources[name]
	if s == nil && r.room(name) {
		s = &Resource{Origin: n.origin, Name: name}
		n.resources[name] = s
	}
	return s
}

// room reports whether there is room for one more device or resource. If so, it counts it.
func (r *Reader) room(name string) bool {
	if r.kept == maxKept || len(name) > maxName {
		return false
	}
	r.kept++
	return true
}

// offers reports whether one of the selected devices is offered as this resource.
func (n *node) offers(f *Filter, resource string) bool {
	for id, d := range n.devices {
		if d.resource == resource && f.wantsID(id) {
			return true
		}
	}
	return false
}

// follow updates the state of a node from a line. If counted is false, the line is before Since and
// changes no counts.
func (r *Reader) follow(l *line, n *node, counted bool) {
	switch l.event {
	case logevent.DaemonStarted.String:
		n.begin(l.text("mode"))
	case logevent.ModeChanged.String: // other lines follow for the devices
		n.mode = cutOrigin(l.text("new"))
	case logevent.ScanDone.String:
		n.miss(l.time)
	}
	resource := l.text("resource")
	told := l.duration("latency_ms")
	off := l.texts("gone") // no longer in the list of this resource, perhaps in that of another one
	for _, id := range l.texts("devices") {
		if isMore(id) {
			continue
		}
		if d := r.device(n, id); d != nil {
			if !slices.Contains(off, id) {
				d.offer(resource)
			}
			if counted && (l.event == logevent.ListSent.String || l.event == logevent.SlicesPublished.String) {
				d.Told = max(d.Told, Milliseconds(told))
			}
		}
	}
	if id := l.text("device"); id != "" {
		if d := r.device(n, id); d != nil {
			d.offer(resource)
			d.follow(l, counted)
		} else if counted {
			r.total.OtherDevices++
		}
	}
	if resource != "" {
		if s := r.resource(n, resource); s != nil && counted {
			s.count(l)
		}
	}
	if counted {
		r.total.count(l)
	}
}

// begin handles the start of a daemon. A daemon logs all devices and all holders after its start.
func (n *node) begin(mode string) {
	other := n.mode != "" && mode != "" && n.mode != mode
	n.mode = cutOrigin(mode)
	for _, d := range n.devices {
		d.seen = false
		d.free()
		if other { // the devices of another mode have other ids
			d.Last, d.Since = "", time.Time{}
		}
	}
}

// miss handles the end of a daemon's first scan. Devices that the scan did not find are gone: they were
// removed while no daemon was running, so no line reports the removal.
func (n *node) miss(t time.Time) {
	for _, d := range n.devices {
		if !d.seen && d.Last != "" && d.Last != gone {
			d.become(gone, t)
			d.missed = true
		}
	}
}

// offer sets the resource of the device. It ignores an empty name and one that is too long.
func (d *device) offer(resource string) {
	if resource != "" && len(resource) <= maxName {
		d.resource = resource
	}
}

// gone is the state of a device that was removed. The other states are names of health.
const gone = "gone"

// become sets the device's state as of t.
func (d *device) become(state string, t time.Time) {
	if state != "" && state != d.Last && len(state) <= maxName {
		d.Last, d.Since = state, t
	}
}

// usable reports whether a device of this health is given to containers.
func usable(health string) bool { return health == "healthy" || health == "degraded" }

// turned reports whether one health is usable and the other is unhealthy.
func turned(old, health string) bool {
	return usable(old) && health == "unhealthy" || old == "unhealthy" && usable(health)
}

// follow updates the state of the device from a line about it.
func (d *device) follow(l *line, counted bool) {
	one := 0
	if counted {
		one = 1
	}
	switch l.event {
	case logevent.DeviceUnoffered.String, logevent.LogSuppressed.String: // not about its state
		return
	case logevent.DeviceAdded.String:
		d.become(l.text("health"), l.time)
		d.seen, d.missed, d.removed = true, false, false
	case logevent.DeviceHealth.String:
		d.become(l.text("new"), l.time)
		d.seen, d.missed = true, false
		if turned(l.text("old"), l.text("new")) {
			d.Turns += one
		}
	case logevent.DeviceIdentity.String:
		if l.text("attribute") == "resource" {
			d.offer(l.text("new"))
		}
	case logevent.DeviceRemoved.String:
		d.become(gone, l.time)
		d.Removed += one
		d.removed, d.missed = true, false
	case logevent.DeviceTombstone.String:
		if !d.seen { // it was removed while no daemon was running; the first scan has not ended yet
			d.become(gone, l.time)
			d.seen = true
		}
		if d.removed {
			d.RemovedHeld += one
		}
		d.removed, d.missed = false, false
		d.hold(l.texts("holders"))
	case logevent.DeviceReturned.String:
		if d.free(); len(l.texts("holders")) > 0 {
			d.hold(l.texts("holders"))
		}
	case logevent.DeviceHeld.String: // in addition to earlier holders
		d.hold(slices.Concat(d.Holders, l.texts("holders")))
	case logevent.DeviceFreed.String: // other holders may remain
		d.end(l.texts("holders"))
	case logevent.DeviceReleased.String:
		d.free()
	}
	d.Events += one
	if counted {
		d.Noticed = max(d.Noticed, Milliseconds(l.duration("latency_ms")))
	}
}

// hold sets the holders of the device.
func (d *device) hold(all []string) {
	names := shorten(all)
	if slices.Equal(names, d.HeldBefore) {
		d.HeldBefore = nil
	}
	d.Holders = names
}

// end removes these holders of the device.
func (d *device) end(names []string) {
	left := slices.DeleteFunc(slices.Clone(d.Holders), func(name string) bool { return slices.Contains(names, name) })
	if len(left) == 0 || isMore(left[0]) || left[0] == unknown {
		d.free()
	} else if len(left) < len(d.Holders) {
		d.Holders, d.HeldBefore = left, shorten(names)
	}
}

// free removes all holders of the device.
func (d *device) free() {
	if len(d.Holders) > 0 {
		d.Holders, d.HeldBefore = nil, d.Holders
	}
}

// maxHolders is the number of holders of a device that are kept.
const maxHolders = 3

// unknown stands for holders without a name.
const unknown = "unknown"

// shorten returns the first maxHolders names, each once, and the number of the other names.
func shorten(all []string) []string {
	var some []string
	more := 0
	for _, name := range all {
		n := 0
		switch _, err := fmt.Sscanf(name, "and %d more", &n); {
		case err == nil && isMore(name):
			more += max(0, min(n, 1e9))
		case name == unknown, slices.Contains(some, name):
		case len(some) < maxHolders && len(name) <= maxName:
			some = append(some, name)
		default:
			more++
		}
	}
	if more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	if len(some) == 0 {
		return []string{unknown}
	}
	return some
}

// count adds a line about the resource to its counts.
func (s *Resource) count(l *line) {
	switch l.event {
	case logevent.ListSent.String, logevent.SlicesPublished.String:
		s.Lists++
		s.Told = max(s.Told, Milliseconds(l.duration("latency_ms")))
	case logevent.ResourceRegistered.String, logevent.DriverRegistered.String:
		s.Registrations++
	case logevent.RegisterFailed.String:
		s.RegistrationsFailed++
	case logevent.KubeletRestarted.String:
		s.KubeletRestarts++
	case logevent.StreamClosed.String:
		if l.text("reason") != logevent.EndedByUs {
			s.StreamsLost++
		}
	case logevent.AllocateServed.String, logevent.ClaimPrepared.String:
		s.Served++
	case logevent.AllocateRefused.String, logevent.ClaimRefused.String:
		s.Refused++
	}
}

// count adds a line to the counts of the whole log.
func (s *Summary) count(l *line) {
	switch l.event {
	case logevent.UEventOverflow.String, logevent.InotifyOverflow.String:
		s.Overflows++
	case logevent.SourceLost.String:
		if l.level >= zapcore.WarnLevel { // lower levels repeat that it is still lost
			s.SourcesLost++
		}
	case logevent.DaemonStarted.String:
		s.Starts++
	case logevent.LogSuppressed.String:
		n, _ := l.fields["count"].(float64)
		s.Suppressed += int(max(0, min(n, 1e12)))
	}
}
