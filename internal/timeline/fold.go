package timeline

import (
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// foldWithin is the longest time from the first line of a pull to the last one. In recordings of Linux 6.1 the kernel
// takes 50 ms to remove a card. Of 399 pulls in logs of tests, 397 took less than 50 ms. The other two were failures
// that had lasted for seconds. A person needs longer than foldWithin to pull a card that has just failed, so such a
// failure is not folded into the pull.
const foldWithin = 500 * time.Millisecond

// maxWaiting bounds the lines that wait for the end of a burst.
const maxWaiting = 1000

// pullReasons are the reasons that a device has while the kernel removes its card. A line with any other reason is not
// folded, because it may be about a real failure: a failed card may be removed right after, by the kernel or by a
// person.
var pullReasons = []string{"driver-unbound", "fme-unbound", "no-port", "node-mismatch", "node-missing", "port-missing", "recovering", "unreadable"}

// burst is the lines of one device while its card is pulled. The kernel removes the parts of the card in turn, and each
// step may cause a line.
type burst struct {
	first *line
	ended bool
}

// folder makes one line of each burst, and keeps the order of the lines. The zero folder has no lines.
type folder struct {
	bursts  map[string]*burst // open ones, by origin and device
	waiting []*line           // lines of an open burst, and lines after them
}

// add adds a line, or the line into which the burst that it completes is folded.
func (f *folder) add(l *line) {
	key := l.origin + " " + l.text("device")
	b := f.bursts[key]
	switch l.event {
	case logevent.DeviceAdded.String:
		f.end(key)
	case logevent.DeviceIdentity.String:
		if value := l.text("new"); value == "" || value == "-1" { // a part became unknown
			l.of = b
		}
	case logevent.DeviceHealth.String:
		switch pull := l.text("new") == "unhealthy" && isPull(l); {
		case pull && b != nil:
			l.of = b
		case pull && l.level >= zapcore.WarnLevel:
			l.of = f.begin(key, l)
		default:
			f.end(key)
		}
	case logevent.DeviceRemoved.String:
		if f.end(key); b != nil {
			f.fold(b, l)
		}
	}
	if f.waiting = append(f.waiting, l); len(f.waiting) > maxWaiting {
		f.endAll()
	}
}

// isPull reports whether a line has the reasons of a pull.
func isPull(l *line) bool {
	reasons := withoutService(l)
	return len(reasons) > 0 && !slices.ContainsFunc(reasons, func(reason string) bool { return !slices.Contains(pullReasons, reason) })
}

// withoutService returns the names of the reasons of a line. It leaves out cordoned and excluded, because a person
// usually takes a card out of service before pulling it.
func withoutService(l *line) (names []string) {
	for _, reason := range l.texts("reasons") {
		if name, _, _ := strings.Cut(reason, "="); name != "cordoned" && name != "excluded" {
			names = append(names, name)
		}
	}
	return names
}

// fold removes the lines of a burst. The last line takes their reasons, and the health before the burst.
func (f *folder) fold(b *burst, last *line) {
	var steps []string
	f.waiting = slices.DeleteFunc(f.waiting, func(l *line) bool {
		if l.of != b {
			return false
		}
		for _, name := range withoutService(l) {
			if name != "recovering" && !slices.Contains(steps, name) {
				steps = append(steps, name)
			}
		}
		return true
	})
	last.steps = strings.Join(steps, ", ")
	if old := b.first.text("old"); old != last.text("old") {
		last.fields["old"], last.fields["lasted_ms"] = old, b.first.fields["lasted_ms"]
	}
}

// begin starts a burst of a device.
func (f *folder) begin(key string, l *line) *burst {
	if f.bursts == nil {
		f.bursts = map[string]*burst{}
	}
	f.bursts[key] = &burst{first: l}
	return f.bursts[key]
}

// end ends a burst, if there is one, so that its lines need not wait.
func (f *folder) end(key string) {
	if b := f.bursts[key]; b != nil {
		b.ended = true
		delete(f.bursts, key)
	}
}

// endAll ends all bursts.
func (f *folder) endAll() {
	for key := range f.bursts {
		f.end(key)
	}
}

// expire ends the bursts that began more than foldWithin before or after t.
func (f *folder) expire(t time.Time) {
	for key, b := range f.bursts {
		if t.Sub(b.first.time).Abs() > foldWithin {
			f.end(key)
		}
	}
}

// ready returns the lines up to the first open burst.
func (f *folder) ready() []*line {
	n := slices.IndexFunc(f.waiting, func(l *line) bool { return l.of != nil && !l.of.ended })
	if n < 0 {
		n = len(f.waiting)
	}
	lines := slices.Clone(f.waiting[:n])
	f.waiting = slices.Delete(f.waiting, 0, n)
	return lines
}
