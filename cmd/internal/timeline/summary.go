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

// Summary has the counts of a log, and the last state of each device. Programs rely on its JSON
// keys; in JSON, durations are in milliseconds.
type Summary struct {
	From         time.Time  `json:"from"` // time of the earliest line in the time range
	To           time.Time  `json:"to"`
	Lines        int        `json:"lines"`  // in the time range, without Debug
	Others       int        `json:"others"` // lines of other programs, and of --log-format console
	Broken       int        `json:"broken"`
	Backwards    int        `json:"backwards"` // how often time went back
	Starts       int        `json:"starts"`    // of the daemon
	Overflows    int        `json:"overflows"` // of uevents or inotify
	SourcesLost  int        `json:"sourcesLost"`
	Suppressed   int        `json:"suppressed"` // lines that the daemon left out
	Devices      []Device   `json:"devices"`
	OtherDevices int        `json:"otherDevices"` // lines about devices for which there was no room
	Resources    []Resource `json:"resources"`
}

// Device is the summary of one device.
type Device struct {
	Origin      string       `json:"origin,omitempty"` // pod or host
	ID          string       `json:"id"`
	Last        string       `json:"last"`                 // healthy, degraded, unhealthy or gone; "": not known
	Since       time.Time    `json:"since,omitzero"`       // when Last began
	Holders     []string     `json:"holders,omitempty"`    // containers that hold it
	HeldBefore  []string     `json:"heldBefore,omitempty"` // containers that held it last, and no longer do
	Events      int          `json:"events"`               // lines about it
	Turns       int          `json:"turns"`                // between healthy or degraded and unhealthy
	Removed     int          `json:"removed"`              // how often it was removed
	RemovedHeld int          `json:"removedHeld"`          // of these removals, those while a container held it
	Noticed     Milliseconds `json:"noticedMs"`            // longest time from a hint to the read of the card
	Told        Milliseconds `json:"toldMs"`               // longest time from a hint to the list that was sent
}

// Resource is the summary of one resource.
type Resource struct {
	Origin              string       `json:"origin,omitempty"`
	Name                string       `json:"name"`
	Lists               int          `json:"lists"`  // sent to the kubelet
	Told                Milliseconds `json:"toldMs"` // longest time from a hint to the list
	Registrations       int          `json:"registrations"`
	RegistrationsFailed int          `json:"registrationsFailed"`
	KubeletRestarts     int          `json:"kubeletRestarts"`
	StreamsLost         int          `json:"streamsLost"` // not ended by us
	Served              int          `json:"allocationsServed"`
	Refused             int          `json:"allocationsRefused"`
}

// Milliseconds is a duration that is a number of milliseconds in JSON.
type Milliseconds time.Duration

// MarshalJSON writes the number of milliseconds, exact to the nanosecond.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/1e6, 'f', -1, 64), nil
}

// summary returns the summary of the lines so far. The filter selects its rows.
func (r *Reader) summary() Summary {
	s := r.total
	s.Lines, s.Others, s.Broken, s.Backwards = r.wanted, r.foreign+r.console, r.broken, r.backwards
	s.Devices, s.Resources = []Device{}, []Resource{} // in JSON [], not null
	for _, n := range r.nodes {
		for id, d := range n.devices {
			if r.o.wantsID(id) && (r.o.Resource == "" || d.resource == r.o.Resource) && (d.Last != "" || d.Events > 0) {
				s.Devices = append(s.Devices, d.Device)
			}
		}
		for name, c := range n.resources {
			if (r.o.Resource == "" || name == r.o.Resource) && (len(r.o.devices) == 0 || n.offers(&r.o.Filter, name)) {
				s.Resources = append(s.Resources, *c)
			}
		}
	}
	slices.SortFunc(s.Devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(s.Resources, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Name, b.Name))
	})
	return s
}

// print writes the summary as text.
func (s Summary) print(w io.Writer, colour bool) {
	if !s.From.IsZero() {
		fmt.Fprintf(w, "%s to %s: %s, %s", s.From.Format(time.RFC3339), s.To.Format(time.RFC3339),
			appendDuration(nil, s.To.Sub(s.From)), count(s.Lines, "line"))
		for _, c := range []struct {
			n    int
			noun string
		}{
			{s.Starts, "daemon start"}, {s.Overflows, "overflow"}, {s.SourcesLost, "lost event source"},
			{s.Suppressed, "suppressed line"},
		} {
			if c.n > 0 {
				fmt.Fprint(w, ", ", count(c.n, c.noun))
			}
		}
		fmt.Fprintln(w)
	}
	devices := [][]string{{
		"ORIGIN", "DEVICE", "LAST", "SINCE", "TURNS", "REMOVED", "HELD THEN", "NOTICED", "TOLD", "EVENTS", "HELD BY", "HELD LAST BY",
	}}
	for _, d := range s.Devices {
		since := ""
		if !d.Since.IsZero() {
			since = d.Since.Format(time.RFC3339)
		}
		devices = append(devices, []string{d.Origin, d.ID, d.Last, since, strconv.Itoa(d.Turns), strconv.Itoa(d.Removed),
			strconv.Itoa(d.RemovedHeld), d.Noticed.cell(), d.Told.cell(), strconv.Itoa(d.Events),
			strings.Join(d.Holders, " "), strings.Join(d.HeldBefore, " ")})
	}
	printTable(w, devices, colour)
	if s.OtherDevices > 0 {
		fmt.Fprintf(w, "and %s of more devices\n", count(s.OtherDevices, "event"))
	}
	resources := [][]string{{
		"ORIGIN", "RESOURCE", "LISTS", "TOLD", "REGISTERED", "FAILED", "KUBELET RESTARTS", "STREAMS LOST", "GIVEN", "REFUSED",
	}}
	for _, c := range s.Resources {
		resources = append(resources, []string{c.Origin, c.Name, strconv.Itoa(c.Lists), c.Told.cell(),
			strconv.Itoa(c.Registrations), strconv.Itoa(c.RegistrationsFailed), strconv.Itoa(c.KubeletRestarts),
			strconv.Itoa(c.StreamsLost), strconv.Itoa(c.Served), strconv.Itoa(c.Refused)})
	}
	printTable(w, resources, colour)
}

// cell returns the duration for a table, or "" for 0.
func (m Milliseconds) cell() string {
	if m == 0 {
		return ""
	}
	return string(appendDuration(nil, time.Duration(m)))
}

// printTable writes an empty line and the table, without empty columns. The first row is the heading; if
// there are no other rows, printTable writes nothing.
func printTable(w io.Writer, table [][]string, colour bool) {
	if len(table) == 1 {
		return
	}
	t := terminal.NewTable(w)
	var lines [][]string
	for _, row := range table {
		var cells []string
		for column, cell := range row {
			if slices.ContainsFunc(table[1:], func(row []string) bool { return row[column] != "" }) {
				cells = append(cells, cell)
			}
		}
		lines = append(lines, cells)
	}
	if coloured := slices.Index(lines[0], "LAST"); colour && coloured >= 0 {
		t.Colour = func(column int, cell string) string {
			if column != coloured {
				return ""
			}
			return cmp.Or(stateColours[cell], terminal.Usual)
		}
	}
	fmt.Fprintln(w)
	for _, line := range lines {
		t.Line(line...)
	}
	t.Flush()
}
