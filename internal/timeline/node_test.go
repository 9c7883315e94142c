package timeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/timeline"
)

// What no line says of a device is said at the end.
func TestPresence(t *testing.T) {
	e := func(log string) string { return strings.ReplaceAll(log, `"d"`, `"e"`) }
	on := func(pod, log string) string {
		return each(log, func(l string) string { return "[pod/" + pod + "/plugin] " + l })
	}
	both, again := added(0, "healthy")+e(added(0, "healthy")), daemon(3, "daemon.started")
	for _, test := range []struct {
		name, log string
		f         timeline.Filter
		want      []string
	}{
		{"a restart", both + again + both + daemon(4, "scan.done"), timeline.Filter{}, nil},
		{"one is gone after it", both + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{},
			[]string{"removed while no daemon was running, or not found by the newest daemon: e"}},
		{"it is asked for", both + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{Devices: []string{"e"}},
			[]string{"removed while no daemon was running, or not found by the newest daemon: e"}},
		{"another is asked for", both + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{Devices: []string{"d"}}, nil},
		{"it is not known yet", both + again + added(3, "healthy"), timeline.Filter{}, nil},
		{"it was slow to answer", both + again + added(3, "healthy") + daemon(4, "scan.done") + e(added(5, "healthy")), timeline.Filter{}, nil},
		{"it is said that it is held", both + again + added(3, "healthy") + daemon(4, "scan.done") + e(device(5, "device.tombstone")), timeline.Filter{}, nil},
		{"it is held, as the first scan shows", both + again + added(3, "healthy") + e(device(4, "device.tombstone")) + daemon(4, "scan.done"),
			timeline.Filter{}, nil},
		{"it went before", both + e(device(1, "device.removed")) + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{}, nil},
		{"another mode", both + daemon(2, "mode.changed") + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{},
			[]string{"removed while no daemon was running, or not found by the newest daemon: e"}},
		{"restarted in another mode", in(0, "single") + both + in(3, "af") + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{}, nil},
		{"restarted in the same one", in(0, "af") + both + in(3, "af") + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{},
			[]string{"removed while no daemon was running, or not found by the newest daemon: e"}},
		{"the log begins later", health(1, "unhealthy", "healthy", 1) + again + daemon(4, "scan.done"), timeline.Filter{},
			[]string{"removed while no daemon was running, or not found by the newest daemon: d"}},
		{"another node's restart", on("a", both) + on("b", both+again+added(3, "healthy")+daemon(4, "scan.done")), timeline.Filter{},
			[]string{"removed while no daemon was running, or not found by the newest daemon: b e"}},
		{"two nodes", on("a", both) + on("b", both), timeline.Filter{}, nil},
		{"unplugged and plugged", both + device(1, "device.removed") + added(2, "healthy"), timeline.Filter{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, notes := read(t, timeline.Options{Filter: test.f}, test.log)
			var got []string
			for _, n := range notes {
				if !strings.HasPrefix(n, "time went back") {
					got = append(got, n)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

// A note has a bounded length.
func TestManyMissed(t *testing.T) {
	var log strings.Builder
	for i := range 100 {
		log.WriteString(strings.ReplaceAll(added(0, "healthy"), `"d"`, fmt.Sprintf(`"d%02d"`, i)))
	}
	_, notes := read(t, timeline.Options{}, log.String()+daemon(1, "daemon.started")+daemon(2, "scan.done"))
	want := []string{"removed while no daemon was running, or not found by the newest daemon: d00, d01, d02, d03, d04, d05, d06, d07, and 92 more"}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
