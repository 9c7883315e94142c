package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// state is how a device is, as far as the log says.
type state byte

const (
	unknown state = iota // not seen yet, or nobody watched
	usable               // healthy or degraded
	unhealthy
	gone
)

func stateOf(health []byte) state {
	switch string(health) {
	case "healthy", "degraded":
		return usable
	case "unhealthy":
		return unhealthy
	}
	return unknown
}

// deviceClock follows one device.
type deviceClock struct {
	Device
	state   state
	since   time.Time
	removed bool // and it has not been said yet that it was held
	missed  bool // gone because a daemon began without it
	former  bool // of another mode than the daemon's
}

// show notes the state's name, once it is known.
func (d *deviceClock) show(name []byte) {
	if stateOf(name) != unknown || string(name) == "gone" {
		d.Last = string(name)
	}
}

// turn ends the present state at t and begins the next.
func (d *deviceClock) turn(t time.Time, next state) {
	if lasted := t.Sub(d.since); lasted > 0 {
		switch d.state {
		case usable:
			d.Usable += Milliseconds(lasted)
		case unhealthy:
			d.Unhealthy += Milliseconds(lasted)
		case gone:
			d.Gone += Milliseconds(lasted)
		}
	}
	d.state, d.since = next, t
}

// summary is what the log says of each device and resource, of bounded size.
type summary struct {
	total     Summary
	all       bool // that is said of a device is heard
	devices   map[string]*deviceClock
	resources map[string]*Resource
	other     Resource             // where the map is full
	newest    map[string]time.Time // by origin
	began     map[string]time.Time
	early     map[string]Milliseconds // by device, at most maxDevices: a list overtook the line of what is new on it
}

func newSummary(f Filter) *summary {
	return &summary{
		all:     len(f.Events) == 0 && f.Resource == "" && (f.Level == nil || *f.Level <= Info),
		devices: map[string]*deviceClock{}, resources: map[string]*Resource{},
		newest: map[string]time.Time{}, began: map[string]time.Time{}, early: map[string]Milliseconds{},
	}
}

// maxResources is how many are counted each by itself.
const maxResources = 1000

// note takes a line of the time that is looked at. What is not wanted still tells
// when nobody watched.
func (s *summary) note(l *line, wanted bool) {
	origin := string(l.origin)
	switch string(l.event) {
	case "daemon.started": // one that was killed has not said so
		s.stopClocks(origin, s.newest[origin])
	case "mode.changed":
		s.stopClocks(origin, l.time)
		for _, d := range s.devices {
			d.former = d.former || d.Origin == origin
		}
	case "daemon.stopped", "daemon.failed":
		s.stopClocks(origin, l.time)
	case "scan.done":
		if s.all {
			s.miss(origin, l.time)
		}
	}
	s.span(origin, l.time)
	if !wanted {
		return
	}
	s.count(l)
	if device := l.text("device"); device != nil {
		s.noteDevice(l, device)
	}
	if resource := l.text("resource"); resource != nil {
		s.noteResource(l, resource)
	}
	if ms, ok := l.number("latency_ms"); ok && l.is("list.sent") {
		l.each("devices", func(id []byte) { s.told(string(deviceKey(l.origin, id)), Milliseconds(fromMilliseconds(ms))) })
	}
}

// told notes how long it took until the kubelet was told of a device.
func (s *summary) told(key string, took Milliseconds) {
	if d := s.devices[key]; d != nil {
		d.Told = max(d.Told, took)
	} else if len(s.early) < maxDevices && len(key) <= maxKey {
		s.early[key] = max(s.early[key], took)
	}
}

// span notes that a daemon watched at t.
func (s *summary) span(origin string, t time.Time) {
	if _, known := s.began[origin]; !known && len(s.began) < maxOrigins {
		s.began[origin] = t
	}
	if _, known := s.newest[origin]; known || len(s.newest) < maxOrigins {
		s.newest[origin] = t
	}
	if s.total.From.IsZero() || t.Before(s.total.From) {
		s.total.From = t
	}
	if t.After(s.total.To) {
		s.total.To = t
	}
}

// count counts what concerns no device.
func (s *summary) count(l *line) {
	switch string(l.event) {
	case "uevent.overflow", "inotify.overflow":
		s.total.Overflows++
	case "source.lost":
		if l.level >= Warn { // not each time that it is lost still
			s.total.SourcesLost++
		}
	case "daemon.started":
		s.total.Starts++
	case "log.suppressed":
		n, _ := l.number("count")
		s.total.Suppressed += int(max(0, min(n, 1e12)))
	}
}

func (s *summary) stopClocks(origin string, t time.Time) {
	for _, d := range s.devices {
		if d.Origin == origin {
			d.turn(t, unknown)
		}
	}
}

// miss takes those devices for gone that a daemon has not found on its first look:
// no line says that they went while nobody watched.
func (s *summary) miss(origin string, t time.Time) {
	for _, d := range s.devices {
		if d.Origin == origin && d.state == unknown && !d.former {
			d.turn(t, gone)
			d.show([]byte("gone"))
			d.missed = true
		}
	}
}

func (s *summary) noteDevice(l *line, id []byte) {
	if l.is("device.unoffered") || l.is("log.suppressed") {
		return
	}
	key := deviceKey(l.origin, id)
	d := s.devices[string(key)]
	if d == nil {
		if len(s.devices) == maxDevices || len(key) > maxKey {
			s.total.OtherDevices++
			return
		}
		d = &deviceClock{Device: Device{Origin: string(l.origin), ID: string(id), Told: s.early[string(key)]}}
		delete(s.early, string(key))
		s.devices[string(key)] = d
	}
	d.Events++
	if ms, ok := l.number("latency_ms"); ok {
		d.Noticed = max(d.Noticed, Milliseconds(fromMilliseconds(ms)))
	}
	if d.state == unknown { // the line says what was, and for how long
		if old := stateOf(l.text("old")); old != unknown {
			ms, _ := l.number("lasted_ms")
			d.state, d.since = old, l.time.Add(-fromMilliseconds(ms))
			if began := s.began[d.Origin]; d.since.Before(began) {
				d.since = began
			}
		}
	}
	d.follow(l)
}

// follow takes what an event says of the device's state.
func (d *deviceClock) follow(l *line) {
	switch string(l.event) {
	case "device.added":
		if d.missed { // it was slow to answer, or came then: that is not known
			d.state = unknown
		}
		d.turn(l.time, stateOf(l.text("health")))
		d.show(l.text("health"))
		d.removed, d.missed, d.former = false, false, false
	case "device.health":
		next := stateOf(l.text("new"))
		if old := stateOf(l.text("old")); old != next && old != unknown && next != unknown {
			d.Turns++
		}
		d.turn(l.time, next)
		d.show(l.text("new"))
	case "device.removed":
		d.turn(l.time, gone)
		d.show([]byte("gone"))
		d.Removed++
		d.removed = true
	case "device.tombstone":
		if d.removed {
			d.RemovedHeld++
			d.removed = false
		}
		d.missed = false
		if d.state == unknown { // it went while nobody watched
			d.turn(l.time, gone)
			d.show([]byte("gone"))
		}
	}
}

func (s *summary) noteResource(l *line, name []byte) {
	key := string(deviceKey(l.origin, name))
	r := s.resources[key]
	if r == nil {
		r = &s.other
		if len(s.resources) < maxResources && len(key) <= maxKey {
			r = &Resource{Origin: string(l.origin), Name: string(name)}
			s.resources[key] = r
		}
	}
	switch string(l.event) {
	case "list.sent":
		r.Lists++
		if ms, ok := l.number("latency_ms"); ok {
			r.Told = max(r.Told, Milliseconds(fromMilliseconds(ms)))
		}
	case "resource.registered":
		r.Registrations++
	case "register.failed":
		r.RegistrationsFailed++
	case "kubelet.restarted":
		r.KubeletRestarts++
	case "stream.closed":
		if string(l.text("reason")) != "ended by us" {
			r.StreamsLost++
		}
	case "allocate.served":
		r.Served++
	case "allocate.refused":
		r.Refused++
	}
}

// result ends all clocks and returns what they say.
func (s *summary) result(t tally) Summary {
	result := s.total
	result.Lines, result.Others, result.Broken, result.Backwards = t.wanted, t.others+t.console, t.broken, t.backwards
	for _, d := range s.devices {
		d.turn(s.newest[d.Origin], d.state)
		result.Devices = append(result.Devices, d.Device)
	}
	for _, r := range s.resources {
		result.Resources = append(result.Resources, *r)
	}
	if s.other != (Resource{}) {
		s.other.Name = "others"
		result.Resources = append(result.Resources, s.other)
	}
	slices.SortFunc(result.Devices, func(a, b Device) int {
		return cmp.Or(strings.Compare(a.Origin, b.Origin), strings.Compare(a.ID, b.ID))
	})
	slices.SortFunc(result.Resources, func(a, b Resource) int {
		return cmp.Or(strings.Compare(a.Origin, b.Origin), strings.Compare(a.Name, b.Name))
	})
	return result
}
