package timeline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/timeline"
)

// What a line says that lacks fields, or has odd ones.
func TestOddLines(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, test := range []struct{ name, event, fields, want string }{
		{"a list without count", "list.sent", `"resource":"r"`, "kubelet told the whole list"},
		{"a first list", "list.sent", `"resource":"r","count":3,"unhealthy":["a","b"],"latency_ms":2`,
			"kubelet told the whole list (3 devices, unhealthy: a, b; 2.00 ms after the hint)"},
		{"a list of all kinds", "list.sent", `"resource":"r","count":9,"devices":["a","b","c","d","e","and 3 more"],"unhealthy":["b","e","and 1 more"],"gone":["c"]`,
			"kubelet told: b, e unhealthy; c off the list; a, d healthy; and 3 more (9 devices in all)"},
		{"we close a stream", "stream.closed", `"resource":"r","lasted_ms":2000,"reason":"ended by us"`, "stream to the kubelet closed by us (it was open for 2.00 s)"},
		{"new and not offered", "device.added", `"device":"d","health":"unhealthy","reasons":["removed-in-use"],"resource":"r"`,
			"new, unhealthy: removed-in-use; belongs to r"},
		{"recovered without count", "scan.recovered", ``, "cards could be listed again"},
		{"recovered at once", "scan.recovered", `"pci":"0000:3b:00.0","count":1`, "card could be read again (1 failure)"},
		{"a start on a node", "daemon.started", `"version":"v1","pid":7,"mode":"af","node":"worker-3"`, "daemon started, version v1, mode af, node worker-3"},
		{"settings read", "daemon.reload", `"devices":["3b:00.0","5e"]`, "SIGHUP: settings read again; excluded: 3b:00.0, 5e"},
		{"a notice", "config.notice", `"reason":"why","mode":"af","node":"n"`, "it happened: why (mode af; node n)"},
		{"Events left out", "recorder.dropped", `"count":3`, "3 Kubernetes Events left out, there were too many"},
		{"Events without uid", "recorder.anonymous", `"error":"403"`, "it happened: 403"},
		{"an Event refused", "recorder.failed", `"reason":"DeviceRemoved","object":"Node/n","error":"400"`,
			"Kubernetes Event given up: DeviceRemoved about Node/n: 400"},
		{"an Event written", "recorder.recorded", `"reason":"DeviceRemoved","object":"Node/n","count":2`,
			"Kubernetes Event written: DeviceRemoved about Node/n (2 times)"},
		{"a health of nothing", "device.health", `"device":"d"`, "still"},
		{"a number as a text", "device.removed", `"device":"d","old":5,"lasted_ms":"long"`, "gone"},
		{"a duration of years", "stream.closed", `"resource":"r","lasted_ms":1e300`, "kubelet does not listen any more (it did for 73000d00h)"},
		{"a negative one", "stream.closed", `"resource":"r","lasted_ms":-5`, "kubelet does not listen any more (it did for 0.00 ms)"},
		{"a retry at once", "registration.ended", `"resource":"r","reason":"asked to","retry_ms":0`, "registration ended: asked to"},
		{"a long text, cut between characters", "daemon.failed", `"error":"x` + long + `"`, "daemon failed: x" + long[:158] + "…"},
		{"unknown, with all kinds", "new.one", `"a":[1,"b"],"c":{"d":null},"e_ms":1500,"f":true,"g":"h i"`,
			`it happened [new.one] a=[1,"b"] c={"d":null} e=1.50 s f=true g=h i`},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _ := read(t, timeline.Options{}, entry(noon, "info", test.event, test.fields))
			if diff := cmp.Diff(test.want, strings.TrimSpace(out[min(len(out), 50):])); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		})
	}
}

// All of the time is what was never down.
func TestUptimeIsNotRoundedUp(t *testing.T) {
	log := added(0, "healthy") + strings.Replace(health(1, "healthy", "unhealthy", 1), `:01Z`, `:01.000000001Z`, 1) +
		strings.Replace(health(1, "unhealthy", "healthy", 0), `:01Z`, `:01.000000002Z`, 1) + daemon(59, "x.y")
	out, _ := read(t, timeline.Options{Summary: true}, log)
	if !strings.Contains(out, " 99.99 % ") {
		t.Errorf("want 99.99 %%:\n%s", out)
	}
}
