package timeline_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/timeline"
)

// at is a time of the log, in seconds.
func at(second int) string {
	return time.Date(2026, 11, 21, 12, 0, second, 0, time.UTC).Format(time.RFC3339Nano)
}

func health(second int, old, new string, lasted int) string {
	fields := fmt.Sprintf(`"device":"d","old":"%s","new":"%s","reasons":[],"lasted_ms":%d`, old, new, lasted*1000)
	return entry(at(second), "info", "device.health", fields)
}

func added(second int, health string) string {
	return entry(at(second), "info", "device.added", `"device":"d","health":"`+health+`"`)
}

func device(second int, event string) string {
	return entry(at(second), "info", event, `"device":"d","old":"healthy","lasted_ms":1`)
}

func daemon(second int, event string) string { return entry(at(second), "info", event, "") }

// in is the start of a daemon in a mode.
func in(second int, mode string) string {
	return entry(at(second), "info", "daemon.started", `"mode":"`+mode+`"`)
}

// bound is a time of the log, in seconds, as it was typed some hours later.
func bound(t *testing.T, second int) timeline.Bound {
	t.Helper()
	b, err := timeline.ParseBound(at(second), time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// How long a device was what.
func TestClocks(t *testing.T) {
	type times struct {
		Usable, Unhealthy, Gone      float64 // s
		Turns, Removed, Held, Events int
		Last                         string
	}
	for _, test := range []struct {
		name, log string
		want      times
	}{
		{"from its first line to the log's last", daemon(0, "x.y") + added(2, "healthy") + daemon(10, "x.y"),
			times{Usable: 8, Events: 1, Last: "healthy"}},
		{"a line says what was before it", daemon(0, "x.y") + health(5, "unhealthy", "healthy", 3) + daemon(6, "x.y"),
			times{Usable: 1, Unhealthy: 3, Turns: 1, Events: 1, Last: "healthy"}},
		{"but not before the log", daemon(4, "x.y") + health(5, "unhealthy", "healthy", 3) + daemon(6, "x.y"),
			times{Usable: 1, Unhealthy: 1, Turns: 1, Events: 1, Last: "healthy"}},
		{"turns", added(0, "healthy") + health(1, "healthy", "degraded", 1) + health(3, "degraded", "unhealthy", 2) +
			health(6, "unhealthy", "unhealthy", 3) +
			health(10, "unhealthy", "degraded", 7) + daemon(15, "x.y"), times{Usable: 8, Unhealthy: 7, Turns: 2, Events: 5, Last: "degraded"}},
		{"gone and back", added(0, "healthy") + device(1, "device.removed") + device(3, "device.returned") + added(3, "unhealthy") + daemon(7, "x.y"),
			times{Usable: 1, Gone: 2, Unhealthy: 4, Removed: 1, Events: 4, Last: "unhealthy"}},
		{"held when it was removed, by one and another", added(0, "healthy") + device(1, "device.removed") + device(2, "device.tombstone") +
			device(3, "device.tombstone") + device(4, "device.released") + added(5, "healthy") + device(6, "device.tombstone"),
			times{Usable: 2, Gone: 4, Removed: 1, Held: 1, Events: 7, Last: "healthy"}},
		{"nobody watched", added(0, "healthy") + daemon(2, "daemon.stopped") + daemon(10, "daemon.started") + added(11, "unhealthy") + daemon(14, "x.y"),
			times{Usable: 2, Unhealthy: 3, Events: 2, Last: "unhealthy"}},
		{"the daemon was killed", added(0, "healthy") + daemon(2, "x.y") + daemon(10, "daemon.started") + daemon(14, "x.y"),
			times{Usable: 2, Events: 1, Last: "healthy"}},
		{"it went between two daemons", added(0, "healthy") + daemon(2, "daemon.stopped") + daemon(10, "daemon.started") + daemon(11, "scan.done") +
			daemon(14, "x.y"), times{Usable: 2, Gone: 3, Events: 1, Last: "gone"}},
		{"it went between two daemons, and came", added(0, "healthy") + daemon(2, "daemon.stopped") + daemon(10, "daemon.started") +
			daemon(11, "scan.done") + added(13, "unhealthy") + daemon(14, "x.y"), times{Usable: 2, Unhealthy: 1, Events: 2, Last: "unhealthy"}},
		{"found again", added(0, "healthy") + daemon(2, "daemon.stopped") + daemon(10, "daemon.started") + added(10, "healthy") +
			daemon(11, "scan.done") + daemon(14, "x.y"), times{Usable: 6, Events: 2, Last: "healthy"}},
		{"another mode", added(0, "healthy") + daemon(2, "mode.changed") + health(10, "healthy", "unhealthy", 10) + daemon(14, "x.y"),
			times{Usable: 10, Unhealthy: 4, Turns: 1, Events: 2, Last: "unhealthy"}},
		{"another mode, and a restart without it", added(0, "healthy") + daemon(2, "mode.changed") + daemon(4, "daemon.stopped") +
			daemon(10, "daemon.started") + daemon(11, "scan.done") + daemon(14, "x.y"), times{Usable: 4, Gone: 3, Events: 1, Last: "gone"}},
		{"restarted in another mode", in(0, "single") + added(0, "healthy") + in(2, "af") + daemon(3, "scan.done") + daemon(14, "x.y"),
			times{Events: 1, Last: "healthy"}},
		{"restarted in the same one", in(0, "af") + added(0, "healthy") + in(2, "af") + daemon(3, "scan.done") + daemon(14, "x.y"),
			times{Gone: 11, Events: 1, Last: "gone"}},
		{"it went while nobody watched", daemon(0, "x.y") + entry(at(1), "warn", "device.tombstone", `"device":"d"`) + daemon(3, "x.y"),
			times{Gone: 2, Events: 1, Last: "gone"}},
		{"time goes back", added(10, "healthy") + health(4, "healthy", "unhealthy", 1) + daemon(6, "x.y"),
			times{Unhealthy: 2, Turns: 1, Events: 2, Last: "unhealthy"}},
		{"a state of tomorrow", added(0, "blessed") + health(1, "blessed", "healthy", 1) + daemon(3, "x.y"),
			times{Usable: 2, Events: 2, Last: "healthy"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _ := read(t, timeline.Options{Summary: true, JSON: true}, test.log)
			var got struct {
				Devices []struct {
					Last                          string
					Events, Turns, Removed        int
					RemovedHeld                   int
					UsableMS, UnhealthyMS, GoneMS float64
				}
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Devices) != 1 {
				t.Fatalf("%v, %s", err, out)
			}
			d := got.Devices[0]
			was := times{d.UsableMS / 1000, d.UnhealthyMS / 1000, d.GoneMS / 1000, d.Turns, d.Removed, d.RemovedHeld, d.Events, d.Last}
			if diff := cmp.Diff(test.want, was); diff != "" {
				t.Errorf("device (-want +got):\n%s", diff)
			}
		})
	}
}

// The list may be on its way before it is logged that a device on it is new.
func TestToldBeforeNew(t *testing.T) {
	sent := entry(at(0), "info", "list.sent", `"resource":"r","count":1,"latency_ms":2.5,"devices":["d","and 3 more"]`)
	out, _ := read(t, timeline.Options{Summary: true}, sent+added(0, "healthy")+daemon(1, "x.y"))
	if !strings.Contains(out, " 2.50 ms  1\n") || strings.Contains(out, "more") {
		t.Errorf("want that the kubelet was told after 2.50 ms:\n%s", out)
	}
}

// A summary of some lines would say what is not so.
func TestNoSummaryOfSomeEvents(t *testing.T) {
	for _, f := range []timeline.Filter{{Events: []string{"device.health"}}, {Level: level(timeline.Warn)}} {
		if _, err := timeline.New(timeline.Options{Summary: true, Filter: f}, io.Discard); err == nil || !strings.Contains(err.Error(), "counts all lines") {
			t.Errorf("%+v: %v, want that it is refused", f, err)
		}
	}
}

// What was asked for chooses rows; all lines count.
func TestSummaryOfADevice(t *testing.T) {
	log := in(0, "single") + strings.Replace(added(0, "healthy"), `"d"`, `"d","resource":"r"`, 1) +
		strings.Replace(added(0, "healthy"), `"d"`, `"e","resource":"s"`, 1) + entry(at(1), "info", "list.sent", `"resource":"r","count":1`) +
		entry(at(1), "info", "list.sent", `"resource":"s","count":1`) + health(5, "healthy", "unhealthy", 5) + in(6, "single") + daemon(7, "scan.done")
	for _, f := range []timeline.Filter{{Devices: []string{"d"}}, {Resource: "r"}} {
		out, _ := read(t, timeline.Options{Summary: true, Filter: f}, log)
		want := `2026-11-21T12:00:00Z to 2026-11-21T12:00:07Z: 7.00 s, 8 lines, 2 starts of the daemon
The log ends there: what came after is not counted (--until 0s: until now, as it was there).

DEVICE  LAST  UPTIME    TURNS  REMOVED  HELD THEN  EVENTS
d       gone  100.00 %  1      0        0          2

RESOURCE  LISTS  REGISTERED  FAILED  KUBELET RESTARTS  STREAMS LOST  GIVEN  REFUSED
r         1      0           0       0                 0             0      0
`
		if diff := cmp.Diff(want, out); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", f, diff)
		}
	}
}

// A dead card on a quiet node is dead until now, if that is asked for; and what the
// log does not say is said.
func TestSummaryAfterTheLog(t *testing.T) {
	log := added(0, "healthy") + device(8, "device.removed") + entry(at(9), "warn", "device.tombstone", `"device":"d","holders":["default/demo/main","a/b/c"]`) +
		daemon(10, "x.y")
	const gone = "\nd       gone, held by default/demo/main a/b/c  "
	for _, test := range []struct {
		name, log string
		until     int
		want      []string
	}{
		{"its end", log, 0, []string{":10Z: 10.0 s, 4 lines\nThe log ends there: what came after is not counted", gone + "80.00 %  2.00 s  0 "}},
		{"later", log, 40, []string{":40Z: 40.0 s, 4 lines\nThe log ends at 2026-11-21T12:00:10Z: from then on all is counted as it was there.\n",
			gone + "20.00 %  32.0 s  0 "}},
		{"later than now", log, 5 * 3600, []string{"T15:00:00Z: 3h00m, 4 lines\nThe log ends at 2026-11-21T12:00:10Z", gone + "0.07 %  2h59m  0 "}},
		{"the daemon has stopped", log + daemon(12, "daemon.stopped"), 40, []string{":40Z: 40.0 s, 5 lines\nThe log ends at", gone + "66.67 %  4.00 s  0 "}},
		{"in the middle", log, 9, []string{":09Z: 9.00 s, 2 lines\n\n", "\nd       gone  88.89 %  1.00 s  0 "}},
		{"a daemon was killed before", added(0, "healthy") + daemon(4, "x.y") + daemon(9, "daemon.started"), 6,
			[]string{":06Z: 6.00 s, 2 lines\n\n", "healthy  100.00 %  0 "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var f timeline.Filter
			if test.until > 0 {
				f.Until = bound(t, test.until)
			}
			out, _ := read(t, timeline.Options{Summary: true, Filter: f}, test.log)
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("want %q:\n%s", want, out)
				}
			}
		})
	}
	out, _ := read(t, timeline.Options{Summary: true, JSON: true, Filter: timeline.Filter{Until: bound(t, 6)}}, added(0, "healthy")+daemon(4, "x.y")+daemon(9, "daemon.started"))
	if !strings.Contains(out, `"usableMs": 4000,`) {
		t.Errorf("want that nobody watched after 4 s:\n%s", out)
	}
}

// Holders are those of the last line about them, and of bounded number.
func TestHolders(t *testing.T) {
	held := func(second int, holders string) string {
		return entry(at(second), "warn", "device.tombstone", `"device":"d","holders":[`+holders+`]`)
	}
	log := added(0, "healthy") + device(1, "device.removed") + held(2, `"a/a/a","b/b/b","c/c/c","d/d/d","`+strings.Repeat("e", 1000)+`"`)
	for _, test := range []struct{ name, log, want string }{
		{"many", log, "gone, held by a/a/a b/b/b c/c/c and 2 more  "},
		{"another", log + held(3, `"x/x/x"`), "gone, held by x/x/x  "},
		{"nobody can say", log + held(3, ""), "gone, held by unknown  "},
		{"released", log + device(3, "device.released"), "gone  "},
		{"back", log + device(3, "device.returned") + added(3, "unhealthy"), "unhealthy  "},
		{"another device stands there", log + added(3, "unhealthy"), "unhealthy, held by a/a/a b/b/b c/c/c and 2 more  "},
		{"it is offered", log + added(3, "unhealthy") + health(4, "unhealthy", "healthy", 1), "healthy  "},
		{"another daemon", log + in(3, "af"), "gone  "},
	} {
		out, _ := read(t, timeline.Options{Summary: true}, test.log)
		if !strings.Contains(out, "\nd       "+test.want) {
			t.Errorf("%s: want %q:\n%s", test.name, test.want, out)
		}
	}
}

// What is not shown tells still that a daemon watched: here from 3 s to 25 s.
func TestDebugLinesAreTime(t *testing.T) {
	debug := func(second int) string { return entry(at(second), "debug", "hint.received", `"source":"uevent"`) }
	lost := entry(at(20), "debug", "source.lost", `"source":"uevent","error":"e"`)
	log := debug(3) + health(5, "unhealthy", "healthy", 5) + lost + debug(21) + debug(30) + daemon(40, "daemon.started")
	until, err := timeline.ParseBound("2026-11-21T12:00:25Z", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out, _ := read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Until: until}}, log)
	if want := "\nd       healthy  90.91 %  2.00 s "; !strings.Contains(out, want) ||
		!strings.HasPrefix(out, "2026-11-21T12:00:03Z to 2026-11-21T12:00:25Z: 22.0 s, ") || strings.Contains(out, "lost") {
		t.Errorf("want 22 s, no source lost, and %q:\n%s", want, out)
	}
}

// What concerns resources and the whole.
func TestCounts(t *testing.T) {
	r := func(event, fields string) string { return entry(noon, "info", event, `"resource":"r"`+fields) }
	log := r("list.sent", `,"count":1`) + r("list.sent", `,"count":1,"latency_ms":2.5,"devices":["d"]`) + r("list.sent", `,"latency_ms":1`) +
		r("resource.registered", "") + r("register.failed", "") + r("kubelet.restarted", "") +
		r("stream.closed", `,"reason":"ended by us"`) + r("stream.closed", `,"reason":"ended by the kubelet"`) +
		r("allocate.served", `,"devices":["d"]`) + r("allocate.refused", `,"devices":["d"]`) +
		entry(noon, "warn", "uevent.overflow", "") + entry(noon, "warn", "inotify.overflow", "") + entry(noon, "warn", "source.lost", "") +
		entry(noon, "warn", "log.suppressed", `"of":"scan.failed","count":12`) + entry(noon, "info", "daemon.started", "") + "hello\n{\"event\":\"\n"
	out, _ := read(t, timeline.Options{Summary: true, JSON: true}, log)
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	want := timeline.Summary{
		From: noon, To: noon, LogEnds: noon, Lines: 15, Others: 1, Broken: 1, Starts: 1, Overflows: 2, SourcesLost: 1, Suppressed: 12, Devices: []timeline.Device{},
		Resources: []timeline.Resource{{
			Name: "r", Lists: 3, Told: timeline.Milliseconds(2500 * time.Microsecond), Registrations: 1, RegistrationsFailed: 1, KubeletRestarts: 1,
			StreamsLost: 1, Served: 1, Refused: 1,
		}},
	}
	wanted, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(wanted)+"\n", out); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// A summary of a span is of that span: what was before it says how all was then,
// also of a device that has nothing to say within, but does not count.
func TestSummarySince(t *testing.T) {
	other := func(log string) string { return strings.ReplaceAll(log, `"d"`, `"e"`) }
	log := in(0, "single") + added(0, "healthy") + other(added(1, "healthy")) + health(2, "healthy", "unhealthy", 2) +
		entry(at(2), "info", "list.sent", `"resource":"r","latency_ms":7,"devices":["d"]`) + health(3, "unhealthy", "healthy", 1) +
		health(6, "healthy", "unhealthy", 3) + daemon(8, "daemon.stopped") + daemon(20, "x.y")
	out, _ := read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Since: bound(t, 4), Until: bound(t, 10)}}, log)
	want := `2026-11-21T12:00:04Z to 2026-11-21T12:00:10Z: 6.00 s, 2 lines

DEVICE  LAST       UPTIME    UNHEALTHY  TURNS  REMOVED  HELD THEN  EVENTS
d       unhealthy  50.00 %   2.00 s     1      0        0          1
e       healthy    100.00 %  -          0      0        0          0
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	out, _ = read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Since: bound(t, 30), Until: bound(t, 40)}}, added(0, "unhealthy"))
	if !strings.Contains(out, ":30Z to 2026-11-21T12:00:40Z: 10.0 s, 0 lines\n") || !strings.Contains(out, "d       unhealthy  0.00 %  10.0 s ") {
		t.Errorf("want that it was unhealthy for 10 s:\n%s", out)
	}
}

// Which device is of a resource is said before the time that is looked at.
func TestResourceSince(t *testing.T) {
	log := strings.Replace(added(0, "healthy"), `"d"`, `"d","resource":"r"`, 1) + health(5, "healthy", "unhealthy", 5)
	got := events(t, timeline.Filter{Resource: "r", Since: bound(t, 4)}, log)
	if diff := cmp.Diff([]string{"d"}, got); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}
