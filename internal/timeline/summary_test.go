package timeline_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/timeline"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// at returns the time of a line, some seconds after the start of the log.
func at(second int) string {
	return time.Date(2026, 11, 21, 12, 0, second, 0, time.UTC).Format(time.RFC3339Nano)
}

func health(second int, old, new string) string {
	return entry(at(second), "info", "device.health", fmt.Sprintf(`"device":"d","old":"%s","new":"%s"`, old, new))
}

func added(second int, health string) string {
	return entry(at(second), "info", "device.added", `"device":"d","health":"`+health+`"`)
}

func device(second int, event string, holders ...string) string {
	list, _ := json.Marshal(holders)
	return entry(at(second), "info", event, `"device":"d","holders":`+string(list))
}

func daemon(second int, event string) string { return entry(at(second), "info", event, "") }

// A summary contains the last state of a device, the time when it began, the counts of changes, and the holders.
func TestStates(t *testing.T) {
	since := func(second int) time.Time { return time.Date(2026, 11, 21, 12, 0, second, 0, time.UTC) }
	restart := daemon(2, "daemon.stopped") + daemon(10, "daemon.started")
	pulled := added(0, "healthy") + device(1, "device.removed") + device(2, "device.tombstone", "a/a/a", "b/b/b")
	given := added(0, "healthy") + device(1, "device.held", "a/a/a")
	a, b, both := []string{"a/a/a"}, []string{"b/b/b"}, []string{"a/a/a", "b/b/b"}
	for _, test := range []struct {
		name, log string
		want      timeline.Device
	}{
		{"new", daemon(0, "x.y") + added(2, "healthy") + daemon(10, "x.y"), timeline.Device{Last: "healthy", Since: since(2), Events: 1}},
		{"turns", added(0, "healthy") + health(1, "healthy", "degraded") + health(3, "degraded", "unhealthy") +
			health(6, "unhealthy", "unhealthy") + health(10, "unhealthy", "degraded"), timeline.Device{Last: "degraded", Since: since(10), Turns: 2, Events: 5}},
		{"reasons change", added(0, "healthy") + health(1, "healthy", "unhealthy") + health(6, "unhealthy", "unhealthy"),
			timeline.Device{Last: "unhealthy", Since: since(1), Turns: 1, Events: 3}},
		{"gone and back", added(0, "healthy") + device(1, "device.removed") + device(3, "device.returned") + added(3, "unhealthy"),
			timeline.Device{Last: "unhealthy", Since: since(3), Removed: 1, Events: 4}},
		{"removed and back, then held under its former resource", added(0, "healthy") + device(1, "device.removed") + added(2, "healthy") + device(3, "device.tombstone", "a/a/a"),
			timeline.Device{Last: "healthy", Since: since(2), Removed: 1, Holders: a, Events: 4}},
		{"no line after a restart", added(0, "healthy") + restart + daemon(14, "x.y"), timeline.Device{Events: 1}},
		{"found again", added(0, "healthy") + restart + added(10, "healthy"), timeline.Device{Last: "healthy", Since: since(0), Events: 2}},
		{"removed while no daemon was running", added(0, "healthy") + restart + device(11, "device.tombstone", "a/a/a"),
			timeline.Device{Last: "gone", Since: since(11), Holders: a, Events: 2}},
		{"not about its state", added(0, "healthy") + entry(at(1), "debug", "device.health", `"device":"d","new":"unhealthy"`) +
			device(1, "device.unoffered") + device(1, "log.suppressed"), timeline.Device{Last: "healthy", Since: since(0), Events: 1}},

		{"held when it was removed, by one container and then another", pulled + device(3, "device.tombstone", "b/b/b"),
			timeline.Device{Last: "gone", Since: since(1), Removed: 1, RemovedHeld: 1, Holders: b, HeldBefore: a, Events: 4}},
		{"released", pulled + device(3, "device.released"), timeline.Device{Last: "gone", Since: since(1), Removed: 1, RemovedHeld: 1, HeldBefore: both, Events: 4}},
		{"back, and held", pulled + device(3, "device.returned", "a/a/a"),
			timeline.Device{Last: "gone", Since: since(1), Removed: 1, RemovedHeld: 1, Holders: a, HeldBefore: b, Events: 4}},
		{"given to the next one", given + device(2, "device.freed", "a/a/a") + device(2, "device.held", "b/b/b"),
			timeline.Device{Last: "healthy", Since: since(0), Holders: b, HeldBefore: a, Events: 4}},
		{"two containers, one ends", given + device(1, "device.held", "b/b/b") + device(2, "device.freed", "a/a/a"),
			timeline.Device{Last: "healthy", Since: since(0), Holders: b, HeldBefore: a, Events: 4}},
		{"many, and those that are named end", added(0, "healthy") + device(1, "device.held", "a/a/a", "b/b/b", "and 3 more") + device(1, "device.freed", "a/a/a", "b/b/b"),
			timeline.Device{Last: "healthy", Since: since(0), HeldBefore: both, Events: 3}},
		{"named again while it is held", given + device(3, "device.held", "a/a/a"), timeline.Device{Last: "healthy", Since: since(0), Holders: a, Events: 3}},
		{"still held when another daemon starts", given + restart + added(10, "healthy") + device(10, "device.held", "a/a/a"),
			timeline.Device{Last: "healthy", Since: since(0), Holders: a, Events: 4}},
		{"pulled while the next one holds it", given + device(2, "device.freed", "a/a/a") + device(3, "device.held", "b/b/b") + device(4, "device.removed") + device(4, "device.tombstone", "b/b/b"),
			timeline.Device{Last: "gone", Since: since(4), Removed: 1, RemovedHeld: 1, Holders: b, HeldBefore: a, Events: 6}},
	} {
		out, _ := read(t, timeline.Options{Summary: true, JSON: true}, test.log)
		var got struct{ Devices []timeline.Device }
		must.Succeed(t, json.Unmarshal([]byte(out), &got))
		test.want.ID = "d"
		compare.Values(t, test.name, []timeline.Device{test.want}, got.Devices, cmpopts.IgnoreUnexported(timeline.Device{}))
	}
}

// With Since and Until a summary counts only lines in the time range. The states of devices also come from earlier
// lines, even for a device without a line in the range. The same id in two pods is two devices.
func TestSummary(t *testing.T) {
	other := func(log string) string { return strings.ReplaceAll(log, `"d"`, `"e"`) }
	log := daemon(0, "daemon.started") + added(0, "healthy") + other(added(1, "healthy")) + health(2, "healthy", "unhealthy") +
		health(3, "unhealthy", "healthy") + health(6, "healthy", "unhealthy") + daemon(8, "daemon.stopped") + other(device(20, "device.removed"))
	f := timeline.Filter{Since: bound(t, at(4)), Until: bound(t, at(10))}
	out, _ := read(t, timeline.Options{Summary: true, Filter: f}, log)
	want := `2026-11-21T12:00:06Z to 2026-11-21T12:00:08Z: 2.00 s, 2 lines, 0 daemon starts

DEVICE  LAST       SINCE                 FLAPS  REMOVED  REMOVED IN USE  EVENTS  HOLDER  LAST HOLDER
d       unhealthy  2026-11-21T12:00:06Z  1      0        0               1       -       -
e       healthy    2026-11-21T12:00:01Z  0      0        0               0       -       -
`
	compare.Values(t, "in the range", want, out)
	pods := each(log, func(l string) string { return "[pod/x/p] " + l + "\n[pod/b/p] " + l })
	out, _ = read(t, timeline.Options{Summary: true, Filter: timeline.Filter{Devices: []string{"d"}}}, pods)
	want = `2026-11-21T12:00:00Z to 2026-11-21T12:00:20Z: 20.0 s, 16 lines, 2 daemon starts

ORIGIN  DEVICE  LAST       SINCE                 FLAPS  REMOVED  REMOVED IN USE  EVENTS  HOLDER  LAST HOLDER
b       d       unhealthy  2026-11-21T12:00:06Z  3      0        0               4       -       -
x       d       unhealthy  2026-11-21T12:00:06Z  3      0        0               4       -       -
`
	compare.Values(t, "a device in two pods", want, out)
}
