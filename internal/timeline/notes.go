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

// breaks counts a broken line, and keeps the beginning of the first one.
func (r *Reader) breaks(why string, data []byte) {
	if r.broken++; r.broken > 1 {
		return
	}
	r.firstBroken = fmt.Sprintf("line %d of %s: %s", r.number, r.file, why)
	if len(data) > shown {
		data = append(data[:shown:shown], "…"...)
	}
	if len(data) > 0 {
		r.firstBroken += ": " + string(data) // Notes escapes it
	}
}

// Notes returns remarks on the log that a user should know: lines that were passed over, a clock
// that went back, devices that were removed while no daemon was running, and filters that match
// nothing.
func (r *Reader) Notes() (notes []string) {
	note := func(format string, a ...any) { notes = append(notes, terminal.Escape(fmt.Sprintf(format, a...))) }
	switch {
	case r.lines == 0 && (r.failed || r.file == ""): // Read has returned the reason
		return nil
	case r.lines == 0 && r.file == "stdin":
		return []string{"nothing on stdin"}
	case r.lines == 0:
		note("nothing in %s", r.file)
		return notes
	}
	var passed []string
	if r.others > 0 {
		passed = append(passed, count(r.others, "line")+" of others")
	}
	if r.broken > 0 {
		passed = append(passed, fmt.Sprintf("%d broken (first: %s)", r.broken, r.firstBroken))
	}
	if len(passed) > 0 {
		note("passed over %s", strings.Join(passed, ", "))
	}
	if r.console > 0 {
		note("passed over %s of --log-format console, which is for people: serve with json, to have it read here",
			count(r.console, "line"))
	}
	if r.backwards > 0 {
		note("time went backwards %s (first: %s): lines are printed as they come",
			count(r.backwards, "time"), r.firstBackwards)
	}
	if r.ours == 0 {
		note("no line of this program's log")
		return notes
	}
	before := len(notes)
	r.noteMissing(note)
	begin, end := r.o.window(r.to.Location())
	if r.o.Since.form == daily && r.o.Until.form == daily && end.After(r.o.Until.now) {
		note("until is before since: taken as %s, which is in the future", end.Format(time.RFC3339))
	}
	if r.total.From.IsZero() {
		note("nothing %s: the log is from %s to %s", spanned(begin, end),
			r.from.Format(time.RFC3339), r.to.Format(time.RFC3339))
	}
	if r.wanted == 0 && len(notes) == before {
		note("none of %s was asked for", count(r.ours, "line"))
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
		note("gone while no daemon watched, or not found by the newest one: %s", some(missed))
	}
	return notes
}

// noteMissing adds a note for each selected device and resource that the log does not have.
func (r *Reader) noteMissing(note func(format string, a ...any)) {
	var devices, resources []string
	for _, n := range r.nodes {
		devices = slices.AppendSeq(devices, maps.Keys(n.devices))
		resources = slices.AppendSeq(resources, maps.Keys(n.resources))
	}
	if r.kept == maxKept { // the log may have it, but there was no room
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

// some returns the sorted names as one text: the first ones, and the number of the others.
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

// spanned returns a time range as text. One of its bounds may be missing.
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
