package timeline_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/cmd/internal/timeline"
)

// at returns the time of a line, some seconds after the start of the log.
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

// in returns the line of a daemon that starts in a mode.
func in(second int, mode string) string {
	return entry(at(second), "info", "daemon.started", `"mode":"`+mode+`"`)
}

// bound returns a Bound some seconds after the start of the log, typed some hours later.
func bound(t *testing.T, second int) timeline.Bound {
	t.Helper()
	b, err := timeline.ParseBound(at(second), time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A summary has the last state of a device, the time when it began, and the counts of changes.
func TestStates(t *testing.T) {
	type state struct {
		Last                         string
		Since                        int // s; -1: not known
		Turns, Removed, Held, Events int
	}
	restart := daemon(2, "daemon.stopped") + daemon(10, "daemon.started")
	for _, test := range []struct {
		name, log string
		want      state
	}{
		{"new", daemon(0, "x.y") + added(2, "healthy") + daemon(10, "x.y"), state{Last: "healthy", Since: 2, Events: 1}},
		{"turns", added(0, "healthy") + health(1, "healthy", "degraded", 1) + health(3, "degraded", "unhealthy", 2) +
			health(6, "unhealthy", "unhealthy", 3) + health(10, "unhealthy", "degraded", 7), state{Last: "degraded", Since: 10, Turns: 2, Events: 5}},
		{"reasons change", added(0, "healthy") + health(1, "healthy", "unhealthy", 1) + health(6, "unhealthy", "unhealthy", 3),
			state{Last: "unhealthy", Since: 1, Turns: 1, Events: 3}},
		{"gone and back", added(0, "healthy") + device(1, "device.removed") + device(3, "device.returned") + added(3, "unhealthy"),
			state{Last: "unhealthy", Since: 3, Removed: 1, Events: 4}},
		{"held when it was removed, by one container and then another", added(0, "healthy") + device(1, "device.removed") + device(2, "device.tombstone") +
			device(3, "device.tombstone") + device(4, "device.released") + added(5, "healthy") + device(6, "device.tombstone"),
			state{Last: "healthy", Since: 5, Removed: 1, Held: 1, Events: 7}},
		{"removed and back, then held under its former resource", added(0, "healthy") + device(1, "device.removed") + added(2, "healthy") + device(3, "device.tombstone"),
			state{Last: "healthy", Since: 2, Removed: 1, Events: 4}},
		{"no line after a restart", added(0, "healthy") + restart + daemon(14, "x.y"), state{Last: "healthy", Events: 1}},
		{"not found after a restart", added(0, "healthy") + restart + daemon(11, "scan.done"), state{Last: "gone", Since: 11, Events: 1}},
		{"not found at first", added(0, "healthy") + restart + daemon(11, "scan.done") + added(13, "unhealthy"),
			state{Last: "unhealthy", Since: 13, Events: 2}},
		{"found again", added(0, "healthy") + restart + added(10, "healthy") + daemon(11, "scan.done"), state{Last: "healthy", Events: 2}},
		{"another mode", added(0, "healthy") + daemon(2, "mode.changed") + health(10, "healthy", "unhealthy", 10),
			state{Last: "unhealthy", Since: 10, Turns: 1, Events: 2}},
		{"restarted in another mode", in(0, "single") + added(0, "healthy") + in(2, "af") + daemon(3, "scan.done"), state{Since: -1, Events: 1}},
		{"restarted in the same mode", in(0, "af") + added(0, "healthy") + in(2, "af") + daemon(3, "scan.done"),
			state{Last: "gone", Since: 3, Events: 1}},
		{"restarted in the mode that it changed to", in(0, "af") + entry(at(1), "info", "mode.changed", `"new":"single"`) + added(1, "healthy") +
			in(2, "single") + daemon(3, "scan.done"), state{Last: "gone", Since: 3, Events: 1}},
		{"removed while no daemon was running", daemon(0, "x.y") + entry(at(1), "warn", "device.tombstone", `"device":"d"`),
			state{Last: "gone", Since: 1, Events: 1}},
		{"an unknown state", added(0, "blessed") + health(1, "blessed", "healthy", 1), state{Last: "healthy", Since: 1, Events: 2}},
		{"debug lines do not count", added(0, "healthy") + entry(at(1), "debug", "device.released", `"device":"d"`), state{Last: "healthy", Events: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _ := read(t, timeline.Options{Summary: true, JSON: true}, test.log)
			var got struct {
				Devices []struct {
					Last                                string
					Since                               time.Time
					Turns, Removed, RemovedHeld, Events int
				}
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Devices) != 1 {
				t.Fatalf("%v, %s", err, out)
			}
			d := got.Devices[0]
			is := state{d.Last, d.Since.Second(), d.Turns, d.Removed, d.RemovedHeld, d.Events}
			if d.Since.IsZero() {
				is.Since = -1
			}
			if diff := cmp.Diff(test.want, is); diff != "" {
				t.Errorf("device (-want +got):\n%s", diff)
			}
		})
	}
}

// The line of a list may come before the line that a device in it is new.
func TestListBeforeDeviceAdded(t *testing.T) {
	sent := entry(at(0), "info", "list.sent", `"resource":"r","count":1,"latency_ms":2.5,"devices":["d","and 3 more"]`)
	out, _ := read(t, timeline.Options{Summary: true}, sent+added(0, "healthy")+daemon(1, "x.y"))
	if !strings.Contains(out, " 2.50 ms  1\n") || strings.Contains(out, "more") {
		t.Errorf("TOLD: want 2.50 ms:\n%s", out)
	}
}

// A summary cannot be limited to some events: its counts and states would be wrong.
func TestNoSummaryOfSomeEvents(t *testing.T) {
	for _, f := range []timeline.Filter{{Events: []string{"device.health"}}, {Level: level(zapcore.WarnLevel)}} {
		if _, err := timeline.New(timeline.Options{Summary: true, Filter: f}, io.Discard); err == nil || !strings.Contains(err.Error(), "want only device, resource, since or until") {
			t.Errorf("%+v: found %v, want an error about event or level", f, err)
		}
	}
}

// The filter selects rows. All lines are counted.
func TestSummaryOfADevice(t *testing.T) {
	log := in(0, "single") + strings.Replace(added(0, "healthy"), `"d"`, `"d","resource":"r"`, 1) +
		strings.Replace(added(0, "healthy"), `"d"`, `"e","resource":"s"`, 1) + entry(at(1), "info", "list.sent", `"resource":"r","count":1`) +
		entry(at(1), "info", "list.sent", `"resource":"s","count":1`) + health(5, "healthy", "unhealthy", 5) + in(6, "single") + daemon(7, "scan.done")
	for _, f := range []timeline.Filter{{Devices: []string{"d"}}, {Resource: "r"}} {
		out, _ := read(t, timeline.Options{Summary: true, Filter: f}, log)
		want := `2026-11-21T12:00:00Z to 2026-11-21T12:00:07Z: 7.00 s, 8 lines, 2 daemon starts

DEVICE  LAST  SINCE                 TURNS  REMOVED  HELD THEN  EVENTS
d       gone  2026-11-21T12:00:07Z  1      0        0          2

RESOURCE  LISTS  REGISTERED  FAILED  KUBELET RESTARTS  STREAMS LOST  GIVEN  REFUSED
r         1      0           0       0                 0             0      0
`
		if diff := cmp.Diff(want, out); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", f, diff)
		}
	}
}

// The holders are those of the last line about holders. Their number is bounded.
func TestHolders(t *testing.T) {
	held := func(second int, holders string) string {
		return entry(at(second), "warn", "device.tombstone", `"device":"d","holders":[`+holders+`]`)
	}
	log := added(0, "healthy") + device(1, "device.removed") + held(2, `"a/a/a","b/b/b","c/c/c","d/d/d","`+strings.Repeat("e", 1000)+`"`)
	given := func(second int, pod string) string {
		return entry(at(second), "info", "device.held", `"device":"d","resource":"r","holders":["`+pod+`"]`)
	}
	freed := func(second int, pod string) string {
		return entry(at(second), "info", "device.freed", `"device":"d","resource":"r","holders":["`+pod+`"],"lasted_ms":1000`)
	}
	for _, test := range []struct{ name, log, want string }{
		{"many", log, "gone [a/a/a b/b/b c/c/c and 2 more] []"},
		{"another", log + held(3, `"x/x/x"`), "gone [x/x/x] []"},
		{"unknown", log + held(3, ""), "gone [unknown] []"},
		{"released", log + device(3, "device.released"), "gone [] [a/a/a b/b/b c/c/c and 2 more]"},
		{"back", log + device(3, "device.returned") + added(3, "unhealthy"), "unhealthy [] [a/a/a b/b/b c/c/c and 2 more]"},
		{"back, and held", log + entry(at(3), "info", "device.returned", `"device":"d","holders":["a/a/a"]`), "gone [a/a/a] [a/a/a b/b/b c/c/c and 2 more]"},
		{"another device with the same id", log + added(3, "unhealthy"), "unhealthy [a/a/a b/b/b c/c/c and 2 more] []"},
		{"another daemon", log + in(3, "af"), "gone [] [a/a/a b/b/b c/c/c and 2 more]"},
		{"removed while no daemon was running", added(0, "healthy") + in(1, "af") + held(2, `"x/x/x"`) + daemon(2, "scan.done"), "gone [x/x/x] []"},
		{"given", added(0, "healthy") + given(1, "a/a/a"), "healthy [a/a/a] []"},
		{"given, and free again", added(0, "healthy") + given(1, "a/a/a") + freed(2, "a/a/a"), "healthy [] [a/a/a]"},
		{"given to the next one", added(0, "healthy") + given(1, "a/a/a") + freed(2, "a/a/a") + given(2, "b/b/b"), "healthy [b/b/b] [a/a/a]"},
		{"two containers, one ends", added(0, "healthy") + given(1, "a/a/a") + given(1, "b/b/b") + freed(2, "a/a/a"), "healthy [b/b/b] [a/a/a]"},
		{"two containers, both end", added(0, "healthy") + given(1, `a/a/a","b/b/b`) + freed(2, "a/a/a") + freed(3, "b/b/b"), "healthy [] [b/b/b]"},
		{"many, in a short line", added(0, "healthy") + given(1, `a/a/a","b/b/b","c/c/c","d/d/d","and 3 more`), "healthy [a/a/a b/b/b c/c/c and 4 more] []"},
		{"many, and all end", added(0, "healthy") + given(1, `a/a/a","b/b/b","c/c/c","d/d/d`) + freed(1, `a/a/a","b/b/b","c/c/c`), "healthy [] [a/a/a b/b/b c/c/c and 1 more]"},
		{"named again while it is held", log + given(3, "a/a/a"), "gone [a/a/a b/b/b c/c/c and 2 more] []"},
		{"still held when another daemon starts", added(0, "healthy") + given(1, "a/a/a") + in(2, "single") + added(3, "healthy") + given(3, "a/a/a"), "healthy [a/a/a] []"},
	} {
		out, _ := read(t, timeline.Options{Summary: true, JSON: true}, test.log)
		var s timeline.Summary
		if err := json.Unmarshal([]byte(out), &s); err != nil || len(s.Devices) != 1 {
			t.Fatalf("%s: %v, %d devices", test.name, err, len(s.Devices))
		}
		if d := s.Devices[0]; fmt.Sprint(d.Last, " ", d.Holders, " ", d.HeldBefore) != test.want {
			t.Errorf("%s: %s %s %s, want %s", test.name, d.Last, d.Holders, d.HeldBefore, test.want)
		}
	}
}

// A summary has counts for each resource and for the whole log.
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

// With Since and Until a summary counts only lines in the time range. The states of devices come from
// earlier lines, too, even for a device without a line in the range.
func TestSummarySince(t *testing.T) {
	other := func(log string) string { return strings.ReplaceAll(log, `"d"`, `"e"`) }
	log := in(0, "single") + added(0, "healthy") + other(added(1, "healthy")) + health(2, "healthy", "unhealthy", 2) +
		entry(at(2), "info", "list.sent", `"resource":"r","latency_ms":7,"devices":["d"]`) + health(3, "unhealthy", "healthy", 1) +
		health(6, "healthy", "unhealthy", 3) + daemon(8, "daemon.stopped") + other(device(20, "device.removed"))
	out, _ := read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Since: bound(t, 4), Until: bound(t, 10)}}, log)
	want := `2026-11-21T12:00:06Z to 2026-11-21T12:00:08Z: 2.00 s, 2 lines

DEVICE  LAST       SINCE                 TURNS  REMOVED  HELD THEN  EVENTS
d       unhealthy  2026-11-21T12:00:06Z  1      0        0          1
e       healthy    2026-11-21T12:00:01Z  0      0        0          0

RESOURCE  LISTS  REGISTERED  FAILED  KUBELET RESTARTS  STREAMS LOST  GIVEN  REFUSED
r         0      0           0       0                 0             0      0
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// The resource of a device may be in a line before Since.
func TestResourceSince(t *testing.T) {
	log := strings.Replace(added(0, "healthy"), `"d"`, `"d","resource":"r"`, 1) + health(5, "healthy", "unhealthy", 5)
	got := events(t, timeline.Filter{Resource: "r", Since: bound(t, 4)}, log)
	if diff := cmp.Diff([]string{"d"}, got); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}

// The list of a device's former resource may be sent after that of its new one.
func TestResourceOfAMovedDevice(t *testing.T) {
	sent := func(resource, fields string) string {
		return entry(at(3), "info", "list.sent", `"resource":"`+resource+`","count":1`+fields)
	}
	log := strings.Replace(added(0, "healthy"), `"d"`, `"d","resource":"r"`, 1) + sent("r", `,"devices":["d"]`) +
		entry(at(3), "info", "device.identity", `"device":"d","attribute":"resource","old":"r","new":"s"`) +
		sent("r", `,"devices":["d"],"gone":["d"]`) + sent("s", "")
	for resource, want := range map[string]bool{"r": false, "s": true} {
		out, _ := read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Resource: resource}}, log)
		if got := strings.Contains(out, "\nd "); got != want {
			t.Errorf("a device of %s: %v, want %v:\n%s", resource, got, want, out)
		}
	}
	out, _ := read(t, timeline.Options{Filter: timeline.Filter{Devices: []string{"d"}}}, log)
	if !strings.HasSuffix(out, "  s                       list sent: complete (1 device in all)\n") {
		t.Errorf("want the first list of s at the end:\n%s", out)
	}
}
