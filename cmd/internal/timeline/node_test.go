package timeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/cmd/internal/timeline"
)

// A note at the end lists the devices that were removed while no daemon was running: no line reports that.
func TestMissedDevices(t *testing.T) {
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
		{"a restart, and one is gone", both + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{},
			[]string{"removed while no daemon was running, or not found by the newest daemon: e"}},
		{"it is selected", both + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{Devices: []string{"e"}},
			[]string{"removed while no daemon was running, or not found by the newest daemon: e"}},
		{"another one is selected", both + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{Devices: []string{"d"}}, nil},
		{"the first scan has not ended", both + again + added(3, "healthy"), timeline.Filter{}, nil},
		{"its card was slow", both + again + added(3, "healthy") + daemon(4, "scan.done") + e(added(5, "healthy")), timeline.Filter{}, nil},
		{"it is held, after the first scan", both + again + added(3, "healthy") + daemon(4, "scan.done") + e(device(5, "device.tombstone")), timeline.Filter{}, nil},
		{"it is held, before the end of the first scan", both + again + added(3, "healthy") + e(device(4, "device.tombstone")) + daemon(4, "scan.done"),
			timeline.Filter{}, nil},
		{"it was removed before the restart", both + e(device(1, "device.removed")) + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{}, nil},
		{"another mode", both + daemon(2, "mode.changed") + again + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{},
			[]string{"removed while no daemon was running, or not found by the newest daemon: e"}},
		{"restarted in another mode", in(0, "single") + both + in(3, "af") + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{}, nil},
		{"restarted in the same mode", in(0, "af") + both + in(3, "af") + added(3, "healthy") + daemon(4, "scan.done"), timeline.Filter{},
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
func TestManyMissedDevices(t *testing.T) {
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

// The history of a device under the DRA driver has its slices and its claims. The summary counts slices
// as lists, and claims as allocations.
func TestClaims(t *testing.T) {
	e := func(level, event, fields string) string {
		return entry(noon, level, event, `"resource":"accelerator.b-com.com",`+fields)
	}
	log := entry(noon, "info", "daemon.started", `"version":"v1","mode":"dra"`) +
		e("info", "device.added", `"device":"3b:00.0","family":"dfl","health":"healthy","reasons":[]`) +
		e("info", "device.added", `"device":"5e:00.0","family":"dfl","health":"healthy","reasons":[]`) +
		e("info", "driver.registered", `"socket":"/s"`) +
		e("info", "slices.published", `"rev":1,"count":2,"slices":1,"tainted":0`) +
		e("info", "claim.prepared", `"claim":"default/a","devices":["3b:00.0","5e:00.0"],"lasted_ms":12`) +
		e("info", "claim.prepared", `"claim":"default/b","devices":["5e:00.0"]`) +
		e("info", "slices.published", `"rev":2,"count":2,"slices":1,"tainted":1,"devices":["3b:00.0"],"unhealthy":["3b:00.0"],"latency_ms":1.5`) +
		e("info", "slices.published", `"rev":3,"count":2,"slices":1,"tainted":2,"devices":["5e:00.0"],"unhealthy":["5e:00.0"],"latency_ms":2.5`) +
		e("warn", "claim.refused", `"claim":"default/c","devices":["3b:00.0"],"reason":"3b:00.0 is unhealthy: port-ap6"`) +
		e("info", "slices.deleted", `"object":"ResourceSlice/x"`) +
		e("info", "claim.unprepared", `"claim":"default/a","devices":["3b:00.0","5e:00.0"]`)
	device := timeline.Filter{Devices: []string{"3b:00.0"}, Resource: "accelerator.b-com.com"}
	out, _ := read(t, timeline.Options{Filter: device}, log)
	const at = "2026-11-21T12:00:00.000Z  "
	want := at + `3b:00.0                 new, healthy; resource accelerator.b-com.com
` + at + `accelerator.b-com.com   slices published: complete (2 devices in 1 slice, 0 tainted)
` + at + `accelerator.b-com.com   prepared for claim default/a: 3b:00.0, 5e:00.0 (took 12.0 ms)
` + at + `accelerator.b-com.com   slices published: 3b:00.0 unhealthy (2 devices in 1 slice, 1 tainted; 1.50 ms after the hint)
` + at + `accelerator.b-com.com ! refused to claim default/c: 3b:00.0: 3b:00.0 is unhealthy: port-ap6
` + at + `accelerator.b-com.com   no longer prepared for claim default/a: 3b:00.0, 5e:00.0
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("lines of the device (-want +got):\n%s", diff)
	}
	out, _ = read(t, timeline.Options{Summary: true}, log)
	_, table, _ := strings.Cut(out, "RESOURCE")
	want = `               LISTS  TOLD     REGISTERED  FAILED  KUBELET RESTARTS  STREAMS LOST  GIVEN  REFUSED
accelerator.b-com.com  3      2.50 ms  1           0       0                 0             2      1
`
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}
