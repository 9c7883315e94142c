package timeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// foldWithin is the longest time from the first line of a pull or a plug to the last one. In
// recordings of Linux 6.1 the kernel takes 50 ms to remove a card and 220 ms to add one. Of 399 pulls
// in logs of tests, 397 took less than 50 ms, and the other two were failures that had lasted for
// seconds. A person needs longer to pull a card that has just failed, so such a failure is not folded
// into the pull.
const foldWithin = 500 * time.Millisecond

// Limits for the lines that wait for the end of a burst.
const (
	maxBursts       = 256
	maxWaiting      = 1000
	maxWaitingBytes = 1 << 20
	maxFirst        = 2 << 10 // bytes of the line that begins a burst
	maxSeen         = 6       // reasons that a folded line names
)

// pullReasons are the reasons that a device has while the kernel removes its card. A line with any other
// reason is not folded: a card that fails may be removed right after, by the kernel or by a person.
var pullReasons = []string{"driver-unbound", "fme-unbound", "no-port", "node-mismatch", "node-missing", "port-missing", "recovering", "unreadable"}

// burst is the lines of one device while its card is pulled or plugged. The kernel removes or adds the
// parts of the card one after the other, and each step may make a line.
type burst struct {
	first   *line
	plug    bool // it begins with device.added, and ends when the device is healthy
	ended   bool
	settled bool     // the line of the plug has been printed; device.identity lines may follow
	seen    []string // names of the reasons so far
}

// folder prints one line for each burst, in its place in the order of lines. The zero folder has
// no lines.
type folder struct {
	bursts  map[string]*burst // open ones, by origin and device
	waiting []waiting
	bytes   int // of the texts in waiting
}

// waiting is a line that is not printed yet, because it or a line before it belongs to an open burst.
type waiting struct {
	text []byte
	of   *burst // nil: the line belongs to no burst
}

// fold prints a line, keeps it until its burst ends, or drops it.
func (r *Reader) fold(l *line) {
	f := &r.folder
	l, of := f.place(l.origin+" "+l.text("device"), l)
	if l == nil {
		return
	}
	if of != nil {
		of.note(l.texts("reasons"))
	}
	text := r.words.line(l)
	if len(f.waiting) == 0 && of == nil {
		r.out.Write(text)
		return
	}
	f.waiting = append(f.waiting, waiting{slices.Clone(text), of})
	if f.bytes += len(text); len(f.waiting) > maxWaiting || f.bytes > maxWaitingBytes || len(f.bursts) > maxBursts {
		f.endAll()
	}
	r.release()
}

// place returns the line to print for l, and the open burst of that line, or nil. It returns no line if
// l is part of a folded line that was printed. key identifies the device of l in bursts.
func (f *folder) place(key string, l *line) (shown *line, of *burst) {
	b, worse := f.bursts[key], l.level >= zapcore.WarnLevel
	switch l.event {
	case logevent.DeviceAdded.String:
		f.end(key)
		if worse || l.text("health") != "unhealthy" || recovers(l) || len(l.json) > maxFirst {
			return l, nil
		}
		return l, f.begin(key, l, true)
	case logevent.DeviceIdentity.String:
		if b == nil {
			return l, nil
		}
		side := "new" // in a pull, parts of the identity become unknown
		if b.plug {
			side = "old" // in a plug, parts were unknown before
		}
		if value := l.text(side); value != "" && value != "-1" {
			return l, nil
		}
		if b.settled {
			return nil, nil
		}
		return l, b
	case logevent.DeviceHealth.String:
		switch bad := l.text("new") == "unhealthy"; {
		case bad && b != nil && (!b.plug && isPull(l) || b.plug && !worse && !b.settled):
			return l, b
		case bad && worse && isPull(l) && len(l.json) <= maxFirst:
			f.end(key)
			return l, f.begin(key, l, false)
		case !bad && !worse && b != nil && b.plug && !b.settled:
			f.drop(b)
			b.settled = true
			return b.plugged(l), nil
		}
		f.end(key)
	case logevent.DeviceRemoved.String:
		f.end(key)
		if b == nil || b.plug {
			return l, nil
		}
		f.drop(b)
		return b.pulled(l), nil
	}
	return l, nil
}

// isPull reports whether a line has reasons, and all of them are pullReasons.
func isPull(l *line) bool {
	reasons := l.texts("reasons")
	return len(reasons) > 0 && !slices.ContainsFunc(reasons, func(reason string) bool {
		name, _, _ := strings.Cut(reason, "=")
		return !slices.Contains(pullReasons, name)
	})
}

// recovers reports whether the device of a line must stay healthy for some time before it is offered.
func recovers(l *line) bool {
	return slices.ContainsFunc(l.texts("reasons"), func(reason string) bool { return strings.HasPrefix(reason, "recovering=") })
}

// begin starts a burst of a device.
func (f *folder) begin(key string, l *line, plug bool) *burst {
	if f.bursts == nil {
		f.bursts = map[string]*burst{}
	}
	kept := *l
	kept.json = nil // the buffer is reused for the next line
	b := &burst{first: &kept, plug: plug}
	f.bursts[key] = b
	return b
}

// end ends a burst, if there is one. Its lines are printed by release.
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

// drop removes the waiting lines of a burst.
func (f *folder) drop(b *burst) {
	f.waiting = slices.DeleteFunc(f.waiting, func(w waiting) bool {
		if w.of == b {
			f.bytes -= len(w.text)
		}
		return w.of == b
	})
}

// expire ends the bursts that began more than foldWithin before or after t.
func (f *folder) expire(t time.Time) {
	for key, b := range f.bursts {
		if t.Sub(b.first.time).Abs() > foldWithin {
			f.end(key)
		}
	}
}

// release prints the waiting lines up to the first open burst.
func (r *Reader) release() {
	f := &r.folder
	n := 0
	for n < len(f.waiting) && (f.waiting[n].of == nil || f.waiting[n].of.ended) {
		r.out.Write(f.waiting[n].text)
		f.bytes -= len(f.waiting[n].text)
		n++
	}
	f.waiting = slices.Delete(f.waiting, 0, n)
}

// releaseAll ends all bursts and prints all lines.
func (r *Reader) releaseAll() {
	r.folder.endAll()
	r.release()
}

// note adds the names of reasons to seen.
func (b *burst) note(reasons []string) {
	for _, reason := range reasons {
		name, _, _ := strings.Cut(reason, "=")
		if name != "recovering" && !slices.Contains(b.seen, name) && len(b.seen) < 100 {
			b.seen = append(b.seen, name)
		}
	}
}

// steps returns the text for the reasons in the lines of a burst, or "" if there are none.
func (b *burst) steps() string {
	seen := b.seen
	if more := len(seen) - maxSeen; more > 0 {
		seen = append(seen[:maxSeen:maxSeen], fmt.Sprintf("and %d more", more))
	}
	if len(seen) == 0 {
		return ""
	}
	return "steps: " + strings.Join(seen, ", ")
}

// plugged returns the one line for a plug. last is the line that makes the device healthy.
func (b *burst) plugged(last *line) *line {
	l := *b.first
	l.time, l.fields, l.aside = last.time, maps.Clone(l.fields), b.steps()
	l.fields["health"], l.fields["reasons"] = last.fields["new"], last.fields["reasons"]
	return &l
}

// pulled returns the one line for a pull: the last line, with the health from before the burst.
func (b *burst) pulled(last *line) *line {
	l := *last
	l.fields, l.aside = maps.Clone(l.fields), b.steps()
	if old := b.first.text("old"); old != l.text("old") {
		l.fields["old"], l.fields["lasted_ms"] = old, b.first.fields["lasted_ms"]
	}
	return &l
}
