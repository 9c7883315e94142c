package timeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Summary contains a short history of each device. Programs rely on its JSON keys.
type Summary struct {
	From    time.Time `json:"from"` // time of the earliest line in the time range
	To      time.Time `json:"to"`
	Lines   int       `json:"lines"`   // number of the daemon's lines in the time range, not counting Debug lines
	Skipped int       `json:"skipped"` // number of incomplete lines and other programs' lines
	Starts  int       `json:"starts"`  // how often the daemon started
	Devices []Device  `json:"devices"`
}

// summary returns a summary of the lines read so far, for the devices that the filter selects.
func (r *Reader) summary() Summary {
	s := r.total
	s.Lines, s.Skipped, s.Devices = r.wanted, r.skipped, []Device{} // [] in JSON rather than null
	for _, d := range r.devices {
		if r.o.wantsDevice(d.ID) {
			shown := *d
			if d.unseen {
				shown.Last, shown.Since = "", time.Time{}
			}
			s.Devices = append(s.Devices, shown)
		}
	}
	slices.SortFunc(s.Devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.ID, b.ID))
	})
	return s
}

// print writes the summary as text.
func (s Summary) print(w io.Writer, colour bool) {
	if !s.From.IsZero() {
		fmt.Fprintf(w, "%s to %s: %s, %s, %s\n", s.From.Format(time.RFC3339), s.To.Format(time.RFC3339),
			durationText(s.To.Sub(s.From)), count(s.Lines, "line"), count(s.Starts, "daemon start"))
	}
	if len(s.Devices) == 0 {
		return
	}
	begin := 1 // leave out the origin column if it would be empty
	if slices.ContainsFunc(s.Devices, func(d Device) bool { return d.Origin != "" }) {
		begin = 0
	}
	const last = 2
	t := terminal.NewTable(w)
	if colour {
		t.Colour = func(column int, cell string) string {
			if column != last-begin {
				return ""
			}
			return cmp.Or(stateColours[cell], terminal.Usual)
		}
	}
	fmt.Fprintln(w)
	t.Line([]string{"ORIGIN", "DEVICE", "LAST", "SINCE", "FLAPS", "REMOVED", "REMOVED IN USE", "EVENTS", "HOLDER", "LAST HOLDER"}[begin:]...)
	for _, d := range s.Devices {
		since := ""
		if !d.Since.IsZero() {
			since = d.Since.Format(time.RFC3339)
		}
		t.Line([]string{
			d.Origin, d.ID, d.Last, since, strconv.Itoa(d.Turns), strconv.Itoa(d.Removed), strconv.Itoa(d.RemovedHeld),
			strconv.Itoa(d.Events), strings.Join(d.Holders, " "), strings.Join(d.HeldBefore, " "),
		}[begin:]...)
	}
	t.Flush()
}

// count returns a number and its noun, which is in the plural unless the number is 1.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
