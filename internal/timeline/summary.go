package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// summary is what the log says of each device and resource, of bounded size. It
// hears of each line, also of those before the time that is looked at: they say how
// all was when that began.
type summary struct {
	filter    *Filter
	total     Summary
	devices   map[string]*deviceClock
	resources map[string]*Resource
	other     Resource                // where the map is full
	watches   map[string]*watch       // by origin, at most maxOrigins
	early     map[string]Milliseconds // by device, at most maxDevices: a list overtook the line of what is new on it
}

func newSummary(f *Filter) *summary {
	return &summary{
		filter: f, devices: map[string]*deviceClock{}, resources: map[string]*Resource{},
		watches: map[string]*watch{}, early: map[string]Milliseconds{},
	}
}

// maxResources is how many are counted each by itself.
const maxResources = 1000

// note takes a line. What is not wanted still tells when somebody watched.
func (s *summary) note(l *line, wanted bool) {
	origin := string(l.origin)
	w, phase := s.watch(origin, l.time)
	if phase == after {
		if !w.past && l.is("daemon.started") {
			s.stopClocks(origin, w.newest)
		}
		w.past = true
		return
	}
	switch string(l.event) {
	case "daemon.started": // one that was killed has not said so
		s.stopClocks(origin, w.newest)
		mode := l.text("mode")
		s.begin(w, origin, mode, w.mode != "" && mode != nil && w.mode != string(mode))
	case "mode.changed": // the devices have lines of their own
		w.setMode(l.text("new"))
	case "daemon.stopped", "daemon.failed":
		s.stopClocks(origin, l.time)
	case "scan.done":
		s.miss(origin, l.time)
	}
	s.span(w, phase, l.time)
	if !wanted {
		return
	}
	if device := l.text("device"); device != nil && s.filter.wantsID(device) {
		s.noteDevice(l, device, w, phase == within)
	}
	if phase == before {
		return
	}
	s.count(l)
	if resource := l.text("resource"); resource != nil {
		s.noteResource(l, resource)
	}
	if ms, ok := l.number("latency_ms"); ok && l.is("list.sent") {
		l.each("devices", func(id []byte) { s.told(string(deviceKey(l.origin, id)), Milliseconds(fromMilliseconds(ms))) })
	}
}

// begin notes that a daemon begins, in a mode, which may be another than before. The devices of another mode are
// others, and who holds what is gone is said again.
func (s *summary) begin(w *watch, origin string, mode []byte, another bool) {
	w.setMode(mode)
	for _, d := range s.devices {
		if d.Origin == origin {
			d.Holders = nil
			d.former = d.former || another
		}
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

// noteDevice follows a device. A line that is not counted says how it is.
func (s *summary) noteDevice(l *line, id []byte, w *watch, counted bool) {
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
		d = &deviceClock{Device: Device{Origin: string(l.origin), ID: string(id), Told: s.early[string(key)]}, watch: w}
		delete(s.early, string(key))
		s.devices[string(key)] = d
	}
	counts := d.Device
	d.follow(l)
	if !counted {
		counts.Last, counts.Holders = d.Last, d.Holders
		d.Device = counts
		return
	}
	d.Events++
	if ms, ok := l.number("latency_ms"); ok {
		d.Noticed = max(d.Noticed, Milliseconds(fromMilliseconds(ms)))
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
	for _, w := range s.watches {
		if last := s.last(w); last.After(result.To) {
			result.To = last
		}
	}
	for key, d := range s.devices {
		if s.filter.Resource == "" || s.filter.learned[key] == s.filter.Resource {
			d.turn(s.last(d.watch), d.state)
			result.Devices = append(result.Devices, d.Device)
		}
	}
	for key, r := range s.resources {
		if (s.filter.Resource == "" || r.Name == s.filter.Resource) && (len(s.filter.devices) == 0 || s.filter.offered[key]) {
			result.Resources = append(result.Resources, *r)
		}
	}
	if s.other != (Resource{}) && s.filter.Resource == "" && len(s.filter.devices) == 0 {
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
