package timeline

import (
	"fmt"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// presence follows which devices there are, for what no line says: that a device
// went while no daemon ran, and that lines of several daemons are mixed.
type presence struct {
	devices map[string]*sighting // by [deviceKey], at most maxDevices
	modes   map[string]string    // of the newest daemon, by origin, at most maxOrigins

	twice      int // devices came that were there already
	firstTwice string
}

// sighting is what the newest daemon of a device's origin has seen of it.
type sighting struct {
	id     string
	here   bool // it has said so
	missed bool // it was there before that daemon began, but not on its first look
}

func (p *presence) note(r *Reader, l *line) {
	switch string(l.event) {
	case "daemon.started":
		if p.begins(l, "mode") { // its devices are others
			p.forget(l.origin)
		}
		p.of(l.origin, func(_ string, s *sighting) { s.here = false })
	case "mode.changed":
		p.begins(l, "new")
	case "scan.done":
		p.of(l.origin, func(_ string, s *sighting) { s.missed = !s.here })
	case "device.added":
		if s := p.see(l); s != nil && s.here {
			p.again(r, s)
		}
		fallthrough
	case "device.health":
		if s := p.see(l); s != nil {
			s.here, s.missed = true, false
		}
	case "device.removed", "device.tombstone": // it is said of this one
		delete(p.devices, string(deviceKey(l.origin, l.text("device"))))
	}
}

// begins says whether a daemon begins in another mode than the one before it.
func (p *presence) begins(l *line, key string) bool {
	mode := l.text(key)
	was, known := p.modes[string(l.origin)]
	if (known || len(p.modes) < maxOrigins) && len(mode) > 0 && len(mode) <= maxKey {
		p.modes[string(l.origin)] = string(mode)
	}
	return known && len(mode) > 0 && was != string(mode)
}

func (p *presence) forget(origin []byte) {
	p.of(origin, func(key string, _ *sighting) { delete(p.devices, key) })
}

// of calls f with each device of an origin.
func (p *presence) of(origin []byte, f func(key string, s *sighting)) {
	begin := string(deviceKey(origin, nil))
	for key, s := range p.devices {
		if strings.HasPrefix(key, begin) {
			f(key, s)
		}
	}
}

// see is what is known of the line's device, nil where there is no room for more.
func (p *presence) see(l *line) *sighting {
	id := l.text("device")
	key := string(deviceKey(l.origin, id))
	s := p.devices[key]
	if s == nil && len(p.devices) < maxDevices && len(key) <= maxKey {
		s = &sighting{id: string(id)}
		p.devices[key] = s
	}
	return s
}

func (p *presence) again(r *Reader, s *sighting) {
	if p.twice++; p.twice == 1 {
		p.firstTwice = fmt.Sprintf("%s at line %d of %s", terminal.Escape(s.id), r.number, r.file)
	}
}

// maxNamed is how many devices a note names.
const maxNamed = 8

// notes are what should be known, as far as it is of devices that were asked for.
func (p *presence) notes(f *Filter) (notes []string) {
	var missed []string
	for key, s := range p.devices {
		if s.missed && f.wantsID([]byte(s.id)) {
			origin, _, _ := strings.Cut(key, "\x00")
			missed = append(missed, strings.TrimSpace(origin+" "+s.id))
		}
	}
	if n := len(missed); n > 0 {
		slices.Sort(missed)
		if n > maxNamed {
			missed = append(missed[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
		}
		names := terminal.Escape(strings.Join(missed, ", "))
		notes = append(notes, fmt.Sprintf("gone while no daemon watched, or not found by the newest one: %s", names))
	}
	if p.twice > 0 {
		notes = append(notes, fmt.Sprintf("%s there already (first: %s): lines of several nodes are mixed, or the same ones come again;"+
			" kubectl logs --prefix tells nodes apart", count(p.twice, "device came that was", "devices came that were"), p.firstTwice))
	}
	return notes
}

// wantsID says whether a device is among those that were asked for.
func (f *Filter) wantsID(id []byte) bool {
	return len(f.devices) == 0 || slices.ContainsFunc(f.devices, func(d deviceFilter) bool { return d.is(id) })
}
