package timeline_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/cmd/internal/timeline"
)

// If the log has no line that the filter selects, a note has the values that the log has.
func TestNothingSelected(t *testing.T) {
	demo, debug := load(t, "demo.log"), load(t, "debug.log")
	now := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	many := ""
	for i := range 12 {
		many += entry(noon, "info", "list.sent", fmt.Sprintf(`"resource":"r%02d","devices":["d%02d","and 3 more"]`, i, i))
	}
	const three = "there are 3b:00.0, 3b:00.0-p1, 5e:00.0"
	for _, test := range []struct {
		name, log    string
		f            timeline.Filter
		since, until string
		want         []string
	}{
		{"no such device", demo, timeline.Filter{Devices: []string{"ff:00.0"}}, "", "", []string{"no device ff:00.0 in this log; " + three}},
		{"half an address", demo, timeline.Filter{Devices: []string{"3b:00", "3b:00.0"}}, "", "", []string{"no device 3b:00 in this log; " + three}},
		{"a node's name", demo, timeline.Filter{Devices: []string{"dfl-port.1\x1b[2J"}}, "", "", []string{`no device dfl-port.1\x1b[2J in this log; ` + three}},
		{"there are many", many, timeline.Filter{Devices: []string{"x"}}, "", "",
			[]string{"no device x in this log; there are d00, d01, d02, d03, d04, d05, d06, d07, and 4 more"}},
		{"there are none", daemon(0, "x.y"), timeline.Filter{Devices: []string{"x"}}, "", "", []string{"no device x in this log; there are none"}},
		{"a card without devices", entry(noon, "warn", "read.timeout", `"pci":"0000:3b:00.0"`), timeline.Filter{Devices: []string{"3b:00.0"}}, "", "", nil},
		{"no line in the time range", demo, timeline.Filter{Devices: []string{"5e:00.0"}}, "20:49:07", "20:49:08", []string{"none of 43 lines selected"}},
		{"no such resource", demo, timeline.Filter{Resource: "foo"}, "", "", []string{"no resource foo in this log; there are b-com.com/accelerator"}},
		{"yesterday", demo, timeline.Filter{}, "", "23:30",
			[]string{"no lines before 2026-11-20T23:30:00Z: the log is from 2026-11-21T20:49:06Z to 2026-11-21T20:49:09Z"}},
		{"later", debug, timeline.Filter{}, "21:00", "21:30",
			[]string{"no lines between 2026-11-21T21:00:00Z and 2026-11-21T21:30:00Z: the log is from 2026-11-21T20:49:09Z to 2026-11-21T20:49:12Z"}},
		{"until before since", demo, timeline.Filter{}, "20:49:07", "20:49:06",
			[]string{"until is a time of day before since: read as 2026-11-22T20:49:06Z, which is in the future"}},
		{"over midnight", demo, timeline.Filter{}, "23:00", "21:00", nil},
		{"an event that did not happen", demo, timeline.Filter{Events: []string{"cdi.failed"}}, "", "", []string{"none of 43 lines selected"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, b := range []struct {
				text string
				to   *timeline.Bound
			}{{test.since, &test.f.Since}, {test.until, &test.f.Until}} {
				if b.text == "" {
					continue
				}
				bound, err := timeline.ParseBound(b.text, now)
				if err != nil {
					t.Fatal(err)
				}
				*b.to = bound
			}
			_, notes := read(t, timeline.Options{Filter: test.f}, test.log)
			if diff := cmp.Diff(test.want, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

// An empty file makes a note. A file that cannot be read makes an error and no note.
func TestNothingRead(t *testing.T) {
	for _, test := range []struct {
		name string
		in   io.Reader
		want []string
	}{
		{"stdin", strings.NewReader(""), []string{"stdin is empty"}},
		{"a\x1b.log", strings.NewReader(""), []string{`a\x1b.log is empty`}},
		{"/tmp", iotest.ErrReader(errors.New("is a directory")), nil},
		{"", nil, nil},
	} {
		reader, err := timeline.New(timeline.Options{}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if test.in != nil {
			_ = reader.Read(test.name, test.in) // the caller reports its error
		}
		if diff := cmp.Diff(test.want, reader.Notes()); diff != "" {
			t.Errorf("notes of %q (-want +got):\n%s", test.name, diff)
		}
	}
}

// An event that is not in the catalogue is refused. The error has events with a similar name.
func TestUnknownEvent(t *testing.T) {
	for _, test := range []struct{ event, want string }{
		{"cdi.lost", `event: found "cdi.lost", want one of source.lost, socket.lost, cdi.failed, cdi.recovered, api.lost`},
		{"holders.gone", `event: found "holders.gone", want one of holders.unknown, holders.known`},
		{"denied", `event: found "denied", want one of admission.denied`},
		{"foo", `event: found "foo", want one of admission.*, allocate.*, api.*, ca.*, cdi.*, certificate.*, claim.*, config.*, `},
		{"scan.done", ""},
		{"*.gone", ""},
	} {
		_, err := timeline.New(timeline.Options{Filter: timeline.Filter{Events: []string{test.event}}}, io.Discard)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, test.want) || (err == nil) != (test.want == "") {
			t.Errorf("event %s: %s, want %s", test.event, got, test.want)
		}
	}
}
