package timeline

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// node is the state of one pod or host. It follows the lines before since, too: they show the
// state of the devices at since.
type node struct {
	origin    string    // "" where no prefix names one
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
	missed   bool // it was there before the newest daemon started, but its first scan did not find it
	removed  bool // it was removed, and no line has shown yet whether a container held it
}

// node returns the node of an origin. After maxNodes nodes, all further origins share one.
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

// device returns a node's device, or nil if it is new and there is no room for more.
func (r *Reader) device(n *node, id string) *device {
	d := n.devices[id]
	if d == nil && r.room(id) {
		d = &device{Device: Device{Origin: n.origin, ID: id}}
		n.devices[id] = d
	}
	return d
}

// resource returns a node's resource, or nil if it is new and there is no room for more.
func (r *Reader) resource(n *node, name string) *Resource {
	s := n.resources[name]
	if s == nil && r.room(name) {
		s = &Resource{Origin: n.origin, Name: name}
		n.resources[name] = s
	}
	return s
}

// room reports whether there is room for one more name, and counts it.
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

// follow updates the state of a node from a line. A line that is not counted (it is before since)
// changes states, but no counts.
func (r *Reader) follow(l *line, n *node, counted bool) {
	switch l.event {
	case event.DaemonStarted.String:
		n.begin(l.text("mode"))
	case event.ModeChanged.String: // the devices have lines of their own
		n.mode = cutOrigin(l.text("new"))
	case event.ScanDone.String:
		n.miss(l.time)
	}
	resource := l.text("resource")
	told := l.duration("latency_ms")
	off := l.texts("gone") // off the list of this resource; they may be on that of another one by now
	for _, id := range l.texts("devices") {
		if isMore(id) {
			continue
		}
		if d := r.device(n, id); d != nil {
			if !slices.Contains(off, id) {
				d.offer(resource)
			}
			if counted && l.event == event.ListSent.String {
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

// begin handles the start of a daemon, which logs each device that it finds, and all holders.
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

// miss handles the end of a daemon's first scan. Devices that it has not found are gone: they were
// removed while no daemon was running, so no line is about the removal.
func (n *node) miss(t time.Time) {
	for _, d := range n.devices {
		if !d.seen && d.Last != "" && d.Last != gone {
			d.become(gone, t)
			d.missed = true
		}
	}
}

// offer sets the resource of the device, unless the name is empty or too long.
func (d *device) offer(resource string) {
	if resource != "" && len(resource) <= maxName {
		d.resource = resource
	}
}

// gone is the state of a device that was removed. The other states are names of health.
const gone = "gone"

// become sets the device's state, which it has since t.
func (d *device) become(state string, t time.Time) {
	if state != "" && state != d.Last && len(state) <= maxName {
		d.Last, d.Since = state, t
	}
}

// usable reports whether a device of this health is given to containers.
func usable(health string) bool { return health == "healthy" || health == "degraded" }

// turned reports whether a change of health is one between usable and unhealthy.
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
	case event.DeviceUnoffered.String, event.LogSuppressed.String: // not about its state
		return
	case event.DeviceAdded.String:
		d.become(l.text("health"), l.time)
		d.seen, d.missed, d.removed = true, false, false
	case event.DeviceHealth.String:
		d.become(l.text("new"), l.time)
		d.seen, d.missed = true, false
		if turned(l.text("old"), l.text("new")) {
			d.Turns += one
		}
	case event.DeviceIdentity.String:
		if l.text("attribute") == "resource" {
			d.offer(l.text("new"))
		}
	case event.DeviceRemoved.String:
		d.become(gone, l.time)
		d.Removed += one
		d.removed, d.missed = true, false
	case event.DeviceTombstone.String:
		if !d.seen { // it was removed while no daemon was running; this line comes before the end of the first scan
			d.become(gone, l.time)
			d.seen = true
		}
		if d.removed {
			d.RemovedHeld += one
		}
		d.removed, d.missed = false, false
		d.hold(l.texts("holders"))
	case event.DeviceReturned.String:
		if d.free(); len(l.texts("holders")) > 0 {
			d.hold(l.texts("holders"))
		}
	case event.DeviceHeld.String: // beside those of earlier lines
		d.hold(slices.Concat(d.Holders, l.texts("holders")))
	case event.DeviceFreed.String: // others may hold it still
		d.end(l.texts("holders"))
	case event.DeviceReleased.String:
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

// end ends the holding by these holders.
func (d *device) end(names []string) {
	left := slices.DeleteFunc(slices.Clone(d.Holders), func(name string) bool { return slices.Contains(names, name) })
	if len(left) == 0 || isMore(left[0]) || left[0] == unknown {
		d.free()
	} else if len(left) < len(d.Holders) {
		d.Holders, d.HeldBefore = left, shorten(names)
	}
}

// free ends the holding of the device.
func (d *device) free() {
	if len(d.Holders) > 0 {
		d.Holders, d.HeldBefore = nil, d.Holders
	}
}

// maxHolders is the number of holders of a device that are kept.
const maxHolders = 3

// unknown is in the place of holders that are not named.
const unknown = "unknown"

// shorten returns the first names, each once, and the number of the others.
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

// count counts a line about the resource.
func (s *Resource) count(l *line) {
	switch l.event {
	case event.ListSent.String:
		s.Lists++
		s.Told = max(s.Told, Milliseconds(l.duration("latency_ms")))
	case event.ResourceRegistered.String:
		s.Registrations++
	case event.RegisterFailed.String:
		s.RegistrationsFailed++
	case event.KubeletRestarted.String:
		s.KubeletRestarts++
	case event.StreamClosed.String:
		if l.text("reason") != event.EndedByUs {
			s.StreamsLost++
		}
	case event.AllocateServed.String:
		s.Served++
	case event.AllocateRefused.String:
		s.Refused++
	}
}

// count counts a line that is about neither a device nor a resource.
func (s *Summary) count(l *line) {
	switch l.event {
	case event.UEventOverflow.String, event.InotifyOverflow.String:
		s.Overflows++
	case event.SourceLost.String:
		if l.level >= zapcore.WarnLevel { // at lower levels: it is still lost
			s.SourcesLost++
		}
	case event.DaemonStarted.String:
		s.Starts++
	case event.LogSuppressed.String:
		n, _ := l.fields["count"].(float64)
		s.Suppressed += int(max(0, min(n, 1e12)))
	}
}
