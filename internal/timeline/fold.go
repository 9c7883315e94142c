package timeline

import (
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// foldWithin is the maximum time between a pull's first and last line. In recordings from Linux 6.1, the kernel takes
// 50 ms to remove a card. Of 399 pulls in test logs, 397 took less than 50 ms, and the other two were failures that had
// already lasted for seconds. If a person pulls a card that has just failed, that takes longer than foldWithin, so the
// failure isn't folded into the pull.
const foldWithin = 500 * time.Millisecond

// maxWaiting is the maximum number of lines that can wait for the end of a burst.
const maxWaiting = 1000

// pullReasons lists the reasons that a device may have while the kernel is removing its card. A line with any other
// reason isn't folded, because it may be about a real failure, after which the kernel or a person may have removed the
// card.
var pullReasons = []string{"driver-unbound", "fme-unbound", "no-port", "node-mismatch", "node-missing", "port-missing", "recovering", "unreadable"}

// burst stands for the lines that are logged about a device while its card is being pulled. The kernel removes the
// card's parts one by one, and each step may cause a line.
type burst struct {
	first *line
	ended bool
}

// folder turns each burst into a single line, and keeps the lines in order. The zero folder is empty and ready to use.
type folder struct {
	bursts  map[string]*burst // open bursts, by origin and device
	waiting []*line           // the lines in open bursts, and all lines after them
}

// add adds a line. If the line completes a burst, add folds the burst into it.
func (f *folder) add(l *line) {
	key := l.origin + " " + l.text("device")
	b := f.bursts[key]
	switch l.event {
	case logevent.DeviceAdded.String:
		f.end(key)
	case logevent.DeviceIdentity.String:
		if value := l.text("new"); value == "" || value == "-1" { // a part has become unknown
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

// isPull reports whether every reason in the line could be the result of a card being pulled.
func isPull(l *line) bool {
	reasons := withoutService(l)
	return len(reasons) > 0 && !slices.ContainsFunc(reasons, func(reason string) bool { return !slices.Contains(pullReasons, reason) })
}

// withoutService returns the names of the reasons in a line, except cordoned and excluded, because people usually take
// a card out of service before pulling it.
func withoutService(l *line) (names []string) {
	for _, reason := range l.texts("reasons") {
		if name, _, _ := strings.Cut(reason, "="); name != "cordoned" && name != "excluded" {
			names = append(names, name)
		}
	}
	return names
}

// fold removes a burst's lines, and adds their reasons and the device's health before the burst to last, the line that
// completes the burst.
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

// begin starts a burst for a device.
func (f *folder) begin(key string, l *line) *burst {
	if f.bursts == nil {
		f.bursts = map[string]*burst{}
	}
	f.bursts[key] = &burst{first: l}
	return f.bursts[key]
}

// end ends a device's burst, if there is one, so that its lines don't have to wait any longer.
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

// expire ends bursts that began more than foldWithin before or after t.
func (f *folder) expire(t time.Time) {
	for key, b := range f.bursts {
		if t.Sub(b.first.time).Abs() > foldWithin {
			f.end(key)
		}
	}
}

// ready removes and returns the lines before the first open burst.
func (f *folder) ready() []*line {
	n := slices.IndexFunc(f.waiting, func(l *line) bool { return l.of != nil && !l.of.ended })
	if n < 0 {
		n = len(f.waiting)
	}
	lines := slices.Clone(f.waiting[:n])
	f.waiting = slices.Delete(f.waiting, 0, n)
	return lines
}
