package timeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// shown is the number of bytes of a broken line that are quoted.
const shown = 60

// noteBroken counts a broken line. It keeps the reason and the beginning of the first one.
func (r *Reader) noteBroken(reason string, data []byte) {
	if r.broken++; r.broken > 1 {
		return
	}
	r.firstBroken = fmt.Sprintf("line %d of %s: %s", r.number, r.file, reason)
	if len(data) > shown {
		data = append(data[:shown:shown], "…"...)
	}
	if len(data) > 0 {
		r.firstBroken += ": " + string(data) // Notes escapes it
	}
}

// Notes returns remarks for the user: on skipped lines, on a clock that went back, on devices that were
// removed while no daemon was running, and on filters that select no line.
func (r *Reader) Notes() (notes []string) {
	note := func(format string, a ...any) { notes = append(notes, terminal.Escape(fmt.Sprintf(format, a...))) }
	switch {
	case r.lines == 0 && (r.failed || r.file == ""): // the error of Read is enough
		return nil
	case r.lines == 0:
		note("%s is empty", r.file)
		return notes
	}
	var skipped []string
	if r.foreign > 0 {
		skipped = append(skipped, count(r.foreign, "line")+" of other programs")
	}
	if r.broken > 0 {
		skipped = append(skipped, fmt.Sprintf("%s (first: %s)", count(r.broken, "broken line"), r.firstBroken))
	}
	if len(skipped) > 0 {
		note("skipped %s", strings.Join(skipped, ", "))
	}
	if r.console > 0 {
		note("skipped %s of --log-format console: run the daemon with --log-format json to read its log here",
			count(r.console, "line"))
	}
	if r.backwards > 0 {
		note("time went back %s (first: %s): lines are printed in the order of the log",
			count(r.backwards, "time"), r.firstBackwards)
	}
	if r.ours == 0 {
		note("no line of the daemon's log found")
		return notes
	}
	before := len(notes)
	r.noteMissing(note)
	begin, end := r.o.window(r.to.Location())
	if r.o.Since.form == daily && r.o.Until.form == daily && end.After(r.o.Until.now) {
		note("until is a time of day before since: read as %s, which is in the future", end.Format(time.RFC3339))
	}
	if r.total.From.IsZero() {
		note("no lines %s: the log is from %s to %s", spanned(begin, end),
			r.from.Format(time.RFC3339), r.to.Format(time.RFC3339))
	}
	if r.wanted == 0 && len(notes) == before {
		note("none of %s selected", count(r.ours, "line"))
	}
	var missed []string
	for _, n := range r.nodes {
		for id, d := range n.devices {
			if d.missed && r.o.wantsID(id) {
				missed = append(missed, strings.TrimSpace(n.origin+" "+id))
			}
		}
	}
	if len(missed) > 0 {
		note("removed while no daemon was running, or not found by the newest daemon: %s", some(missed))
	}
	return notes
}

// noteMissing adds a note for each device and resource of the filter that is not in the log.
func (r *Reader) noteMissing(note func(format string, a ...any)) {
	var devices, resources []string
	for _, n := range r.nodes {
		devices = slices.AppendSeq(devices, maps.Keys(n.devices))
		resources = slices.AppendSeq(resources, maps.Keys(n.resources))
	}
	if r.kept == maxKept { // the log may have it: there was no room for more names
		return
	}
	for i, f := range r.o.devices {
		if !f.found && !slices.ContainsFunc(devices, f.is) {
			note("no device %s in this log; there are %s", r.o.Devices[i], some(devices))
		}
	}
	if name := r.o.Resource; name != "" && !slices.Contains(resources, name) {
		note("no resource %s in this log; there are %s", name, some(resources))
	}
}

// some returns the first 8 of the sorted names and the number of the others, as one text.
func some(names []string) string {
	const most = 8
	slices.Sort(names)
	names = slices.Compact(names)
	if n := len(names); n > most {
		names = append(names[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// spanned returns a time range as text. A zero time means that there is no such bound.
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
