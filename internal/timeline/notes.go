package timeline

import "b-com.com/accelerator-device-plugin/internal/terminal"

// Notes are what should be known of what was read and is not printed: lines that
// were passed over, a clock that went back, what no line says of devices, and that
// there is nothing of what was asked for.
func (r *Reader) Notes() []string {
	if r.tally.read == 0 {
		return r.nothing()
	}
	notes, missing := r.tally.notes(), r.asked.notes()
	switch {
	case r.tally.ours == 0:
		notes = append(notes, "no line of this program's log")
	case r.tally.wanted == 0 && len(missing) == 0:
		notes = append(notes, "none of "+count(r.tally.ours, "line", "lines")+" was asked for")
	}
	return append(append(notes, missing...), r.there.notes(&r.o.Filter)...)
}

// nothing says that there was nothing to read, unless an error says why.
func (r *Reader) nothing() []string {
	switch {
	case r.failed || r.file == "":
		return nil
	case r.file == "stdin":
		return []string{"nothing on stdin"}
	}
	return []string{"nothing in " + terminal.Escape(r.file)}
}
