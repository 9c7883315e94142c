package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Summary is what a log says, in short. Its JSON keys are an interface: keys may
// be added, none is renamed or dropped. Durations are in milliseconds there.
type Summary struct {
	From         time.Time  `json:"from"`
	To           time.Time  `json:"to"`
	LogEnds      time.Time  `json:"logEnds"` // its newest line, which may be before To, or after it
	Lines        int        `json:"lines"`   // from From to To, without Debug
	Others       int        `json:"others"`  // of somebody else
	Broken       int        `json:"broken"`
	Backwards    int        `json:"backwards"` // how often time went back
	Starts       int        `json:"starts"`    // of the daemon
	Overflows    int        `json:"overflows"` // of uevents or inotify
	SourcesLost  int        `json:"sourcesLost"`
	Suppressed   int        `json:"suppressed"` // lines that the daemon left out
	Devices      []Device   `json:"devices"`
	OtherDevices int        `json:"otherDevices"` // events of devices beyond the first 10 000
	Resources    []Resource `json:"resources"`
}

// Device is the summary of one device.
type Device struct {
	Origin      string       `json:"origin,omitempty"` // pod or host
	ID          string       `json:"id"`
	Last        string       `json:"last"`              // healthy, degraded, unhealthy, gone: as it was seen last
	Holders     []string     `json:"holders,omitempty"` // who holds it, where it is only listed because of them
	Events      int          `json:"events"`            // lines about it
	Turns       int          `json:"turns"`             // between healthy or degraded and unhealthy
	Usable      Milliseconds `json:"usableMs"`          // healthy or degraded
	Unhealthy   Milliseconds `json:"unhealthyMs"`       //
	Gone        Milliseconds `json:"goneMs"`            // after it was seen, and until the log's end
	Removed     int          `json:"removed"`           // how often
	RemovedHeld int          `json:"removedHeld"`       // of these, while a container held it
	Noticed     Milliseconds `json:"noticedMs"`         // hint to reading, at worst
	Told        Milliseconds `json:"toldMs"`            // hint to list, at worst
}

// Resource is the summary of one resource.
type Resource struct {
	Origin              string       `json:"origin,omitempty"`
	Name                string       `json:"name"`
	Lists               int          `json:"lists"`  // sent to the kubelet
	Told                Milliseconds `json:"toldMs"` // hint to list, at worst
	Registrations       int          `json:"registrations"`
	RegistrationsFailed int          `json:"registrationsFailed"`
	KubeletRestarts     int          `json:"kubeletRestarts"`
	StreamsLost         int          `json:"streamsLost"` // not ended by us
	Served              int          `json:"allocationsServed"`
	Refused             int          `json:"allocationsRefused"`
}

// Milliseconds is a duration, in JSON a number.
type Milliseconds time.Duration

// MarshalJSON writes as many milliseconds, to the nanosecond.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/1e6, 'f', -1, 64), nil
}

// print writes the summary, as tables for people or as an object.
func (s Summary) print(w io.Writer, asJSON, colour bool) error {
	if asJSON {
		return s.printJSON(w)
	}
	var b strings.Builder
	if s.Lines > 0 || len(s.Devices) > 0 {
		fmt.Fprintf(&b, "%s to %s: %s, %s\n", s.From.Format(time.RFC3339), s.To.Format(time.RFC3339), spell(s.To.Sub(s.From)), s.trouble())
		b.WriteString(s.ending())
	}
	s.printDevices(&b, colour)
	s.printResources(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// ending says what is not known, where the log does not go on after the summary.
func (s Summary) ending() string {
	switch {
	case s.LogEnds.After(s.To):
		return ""
	case s.LogEnds.Before(s.To):
		return fmt.Sprintf("The log ends at %s: from then on all is counted as it was there.\n", s.LogEnds.Format(time.RFC3339))
	}
	return "The log ends there: what came after is not counted (--until 0s: until now, as it was there).\n"
}

func (s Summary) printJSON(w io.Writer) error {
	s.Devices, s.Resources = append([]Device{}, s.Devices...), append([]Resource{}, s.Resources...) // [], not null
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	var b []byte
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		b = append(terminal.AppendJSON(b, line), '\n')
	}
	_, err = w.Write(b)
	return err
}

// trouble names what concerns neither devices nor resources, where there is any.
func (s Summary) trouble() string {
	parts := []string{count(s.Lines, "line", "lines")}
	for _, p := range []struct {
		n         int
		one, many string
	}{
		{s.Starts, "start of the daemon", "starts of the daemon"},
		{s.Overflows, "overflow", "overflows"},
		{s.SourcesLost, "source of events lost", "sources of events lost"},
		{s.Suppressed, "line left out", "lines left out"},
	} {
		if p.n > 0 {
			parts = append(parts, count(p.n, p.one, p.many))
		}
	}
	return strings.Join(parts, ", ")
}

func (s Summary) printDevices(b *strings.Builder, colour bool) {
	table := [][]string{{
		"ORIGIN", "DEVICE", "LAST", "UPTIME", "UNHEALTHY", "GONE", "TURNS", "REMOVED", "HELD THEN", "NOTICED", "TOLD", "EVENTS",
	}}
	for _, d := range s.Devices {
		table = append(table, []string{
			d.Origin, d.ID, d.last(), d.uptime(), took(d.Unhealthy), took(d.Gone), strconv.Itoa(d.Turns),
			strconv.Itoa(d.Removed), strconv.Itoa(d.RemovedHeld), took(d.Noticed), took(d.Told), strconv.Itoa(d.Events),
		})
	}
	printTable(b, table, func(cell, padded string) string {
		p := phrase{colour: colour}
		state, _, _ := strings.Cut(cell, ",")
		switch state {
		case "healthy":
			return string(p.paint(nil, green, padded))
		case "degraded":
			return string(p.paint(nil, yellow, padded))
		case "unhealthy", "gone":
			return string(p.paint(nil, red, padded))
		}
		return padded
	})
	if s.OtherDevices > 0 {
		fmt.Fprintf(b, "and %s of more devices\n", count(s.OtherDevices, "event", "events"))
	}
}

func (s Summary) printResources(b *strings.Builder) {
	table := [][]string{{
		"ORIGIN", "RESOURCE", "LISTS", "TOLD", "REGISTERED", "FAILED", "KUBELET RESTARTS", "STREAMS LOST", "GIVEN", "REFUSED",
	}}
	for _, r := range s.Resources {
		table = append(table, []string{
			r.Origin, r.Name, strconv.Itoa(r.Lists), took(r.Told), strconv.Itoa(r.Registrations), strconv.Itoa(r.RegistrationsFailed),
			strconv.Itoa(r.KubeletRestarts), strconv.Itoa(r.StreamsLost), strconv.Itoa(r.Served), strconv.Itoa(r.Refused),
		})
	}
	printTable(b, table, func(_, padded string) string { return padded })
}

// last is how it was last, and who makes that it is listed still.
func (d Device) last() string {
	if len(d.Holders) == 0 {
		return d.Last
	}
	return d.Last + ", held by " + strings.Join(d.Holders, " ")
}

// uptime is the share of the observed time that a device was healthy or degraded.
func (d Device) uptime() string {
	observed := d.Usable + d.Unhealthy + d.Gone
	if observed == 0 {
		return ""
	}
	share := float64(d.Usable) / float64(observed) * 100
	if share < 100 && share > 99.99 {
		share = 99.99 // 100 is for what was never down
	}
	return strconv.FormatFloat(share, 'f', 2, 64) + " %"
}

// printTable writes an empty line, a heading and rows. A column in which nothing
// stands, and a table without rows, are left out.
func printTable(b *strings.Builder, table [][]string, paint func(cell, padded string) string) {
	if len(table) == 1 {
		return
	}
	widths := make([]int, len(table[0]))
	for column := range widths {
		if !slices.ContainsFunc(table[1:], func(row []string) bool { return row[column] != "" }) {
			continue
		}
		for _, row := range table {
			row[column] = terminal.Escape(row[column])
			if row[column] == "" {
				row[column] = "-"
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(row[column]))
		}
	}
	b.WriteByte('\n')
	for _, row := range table {
		line := ""
		for column, cell := range row {
			if widths[column] > 0 {
				line += paint(cell, cell+strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell))) + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func spell(d time.Duration) string { return string(appendDuration(nil, d)) }

// took is a duration in a table, nothing where there is none.
func took(d Milliseconds) string {
	if d == 0 {
		return ""
	}
	return spell(time.Duration(d))
}
