package timeline_test

import (
	"encoding/json"
	"fmt"
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
		{"another mode", added(0, "healthy") + daemon(2, "mode.changed") + daemon(3, "scan.done") + daemon(14, "x.y"),
			times{Usable: 2, Events: 1, Last: "healthy"}},
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

// Who asks for some events does not hear that a device was found again.
func TestNobodyIsMissedOutOfSight(t *testing.T) {
	log := added(0, "healthy") + health(1, "healthy", "degraded", 1) + daemon(2, "daemon.started") + added(3, "degraded") + daemon(4, "scan.done")
	for _, f := range []timeline.Filter{{Events: []string{"device.health"}}, {Devices: []string{"d"}}, {}} {
		out, _ := read(t, timeline.Options{Summary: true, Filter: f}, log)
		if !strings.Contains(out, "\nd       degraded ") {
			t.Errorf("%+v: want that it is degraded:\n%s", f, out)
		}
	}
	log += daemon(5, "daemon.started") + daemon(6, "scan.done")
	out, _ := read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Devices: []string{"d"}}}, log)
	if !strings.Contains(out, "\nd       gone ") {
		t.Errorf("want that it is gone:\n%s", out)
	}
}

// What is not shown tells still that a daemon watched: here from 3 s to 21 s.
func TestDebugLinesAreTime(t *testing.T) {
	debug := func(second int) string { return entry(at(second), "debug", "hint.received", `"source":"uevent"`) }
	lost := entry(at(20), "debug", "source.lost", `"source":"uevent","error":"e"`)
	log := debug(3) + health(5, "unhealthy", "healthy", 5) + lost + debug(21) + debug(30) + daemon(40, "daemon.started")
	until, err := timeline.ParseBound("2026-11-21T12:00:25Z", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*timeline.Level{nil, level(timeline.Debug)} {
		out, _ := read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Until: until, Level: l}}, log)
		if want := "\nd       healthy  88.89 %  2.00 s "; !strings.Contains(out, want) ||
			!strings.HasPrefix(out, "2026-11-21T12:00:03Z to 2026-11-21T12:00:21Z: 18.0 s, ") || strings.Contains(out, "lost") {
			t.Errorf("level %v: want 18 s, no source lost, and %q:\n%s", l, want, out)
		}
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
		From: noon, To: noon, Lines: 15, Others: 1, Broken: 1, Starts: 1, Overflows: 2, SourcesLost: 1, Suppressed: 12, Devices: []timeline.Device{},
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

// A summary of a device is one of it alone; and of a span, of that span.
func TestSummaryOfSome(t *testing.T) {
	log := added(0, "healthy") + strings.ReplaceAll(added(1, "healthy"), `"d"`, `"e"`) + health(5, "healthy", "unhealthy", 5) +
		daemon(8, "daemon.stopped") + daemon(20, "x.y")
	since, err := timeline.ParseBound("2026-11-21T12:00:04Z", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out, _ := read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Devices: []string{"d"}, Since: since}}, log)
	// Nothing is known of the time before its first line of the span, but what that says.
	if want := "\nd       unhealthy  0.00 %  3.00 s     1 "; !strings.Contains(out, want) || strings.Contains(out, "\ne ") {
		t.Errorf("want %q, and nothing of e:\n%s", want, out)
	}
}
