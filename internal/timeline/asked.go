package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// asked follows whether the log has what was asked for, to say what it has where
// it has not.
type asked struct {
	filter             *Filter
	from, to           time.Time // of all lines
	skipFrom, skipTo   []byte    // times of the first and the last that a glance was enough for
	within             bool      // there are lines of the time that is looked at
	devices, resources names     // that there are
	found              []bool    // by filter of devices
	foundResource      bool
}

// names are a few, and whether there are more.
type names struct {
	some []string
	more bool
}

func (n *names) add(name []byte) {
	if slices.ContainsFunc(n.some, func(s string) bool { return s == string(name) }) {
		return
	}
	if len(n.some) == maxNamed || len(name) > maxKey {
		n.more = true
		return
	}
	n.some = append(n.some, string(name))
}

func (n *names) list(kind string) string {
	if len(n.some) == 0 {
		return "it names no " + kind
	}
	slices.Sort(n.some)
	text := "there are " + terminal.Escape(strings.Join(n.some, ", "))
	if n.more {
		text += " and others"
	}
	return text
}

// note takes a line, which may be out of the time that is looked at.
func (a *asked) note(l *line, within bool) {
	if a.from.IsZero() || l.time.Before(a.from) {
		a.from = l.time
	}
	if l.time.After(a.to) {
		a.to = l.time
	}
	a.within = a.within || within
	if len(a.filter.devices) > 0 {
		a.noteDevices(l)
	}
	if resource := l.text("resource"); resource != nil && a.filter.Resource != "" {
		a.resources.add(resource)
		a.foundResource = a.foundResource || string(resource) == a.filter.Resource
	}
}

func (a *asked) noteDevices(l *line) {
	if a.found == nil {
		a.found = make([]bool, len(a.filter.devices))
	}
	pci := string(l.text("pci"))
	see := func(id []byte) {
		if isMore(id) {
			return
		}
		a.devices.add(id)
		for i, f := range a.filter.devices {
			a.found[i] = a.found[i] || f.is(id)
		}
	}
	if id := l.text("device"); id != nil {
		see(id)
	}
	l.each("devices", see)
	for i, f := range a.filter.devices {
		a.found[i] = a.found[i] || pci != "" && f.pci == pci
	}
}

// skipped takes the time, as it stands, of a line that nothing else is read of.
func (a *asked) skipped(stamp []byte) {
	if a.skipFrom == nil {
		a.skipFrom = append([]byte{}, stamp...)
	}
	a.skipTo = append(a.skipTo[:0], stamp...)
}

// notes say what there is instead of what was asked for.
func (a *asked) notes() (notes []string) {
	for i, id := range a.filter.Devices {
		if i < len(a.found) && !a.found[i] {
			notes = append(notes, fmt.Sprintf("no device %s in this log; %s", terminal.Escape(id), a.devices.list("device")))
		}
	}
	if name := a.filter.Resource; name != "" && !a.from.IsZero() && !a.foundResource {
		notes = append(notes, fmt.Sprintf("no resource %s in this log; %s", terminal.Escape(name), a.resources.list("resource")))
	}
	for _, stamp := range [][]byte{a.skipFrom, a.skipTo} {
		if t, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			if a.from.IsZero() || t.Before(a.from) {
				a.from = t
			}
			if t.After(a.to) {
				a.to = t
			}
		}
	}
	if a.from.IsZero() {
		return notes
	}
	begin, end := a.filter.window(a.to.Location())
	if f := a.filter; f.Since.form == daily && f.Until.form == daily && end.After(f.Until.now) {
		notes = append(notes, fmt.Sprintf("until is before since: %s is taken, which is to come", end.Format(time.RFC3339)))
	}
	if !a.within && (!begin.IsZero() || !end.IsZero()) {
		notes = append(notes, fmt.Sprintf("nothing %s: the log is from %s to %s", spanned(begin, end),
			a.from.Format(time.RFC3339), a.to.Format(time.RFC3339)))
	}
	return notes
}

// spanned names the time between bounds of which one may be missing.
func spanned(begin, end time.Time) string {
	from, to := begin.Format(time.RFC3339), end.Format(time.RFC3339)
	switch {
	case end.IsZero():
		return "from " + from + " on"
	case begin.IsZero():
		return "before " + to
	}
	return "between " + from + " and " + to
}
