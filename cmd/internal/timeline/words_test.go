package timeline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/cmd/internal/timeline"
)

// The text for lines with missing or unexpected fields.
func TestOddLines(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, test := range []struct{ name, event, fields, want string }{
		{"a list without count", "list.sent", `"resource":"r"`, "list sent: complete"},
		{"a first list", "list.sent", `"resource":"r","count":3,"unhealthy":["a","b"],"latency_ms":2`,
			"list sent: complete, unhealthy: a, b (3 devices in all; 2.00 ms after the hint)"},
		{"a list of all kinds", "list.sent", `"resource":"r","count":9,"devices":["a","b","c","d","e","and 3 more"],"unhealthy":["b","e","and 1 more"],"gone":["c"]`,
			"list sent: b, e unhealthy; c off the list; a, d healthy; and 3 more (9 devices in all)"},
		{"we close a stream", "stream.closed", `"resource":"r","lasted_ms":2000,"reason":"ended by us"`, "stream to the kubelet closed: ended by us (open for 2.00 s)"},
		{"new and not offered", "device.added", `"device":"d","health":"unhealthy","reasons":["removed-in-use"],"resource":"r"`,
			"new, unhealthy: removed-in-use; resource r"},
		{"recovered without count", "scan.recovered", ``, "it happened"},
		{"recovered at once", "scan.recovered", `"pci":"0000:3b:00.0","count":1`, "it happened (after 1 failure)"},
		{"a start on a node", "daemon.started", `"version":"v1","pid":7,"mode":"af","node":"worker-3"`, "daemon started, version v1, mode af, node worker-3"},
		{"settings read", "daemon.reload", `"devices":["3b:00.0","5e"]`, "SIGHUP: settings read; excluded: 3b:00.0, 5e (it happened)"},
		{"a notice", "config.notice", `"reason":"why","mode":"af","node":"n"`, "it happened: why (mode af; node n)"},
		{"Events left out", "recorder.dropped", `"count":3`, "3 Kubernetes Events dropped, there were too many"},
		{"Events without uid", "recorder.anonymous", `"error":"403"`, "it happened: 403"},
		{"an Event refused", "recorder.failed", `"reason":"DeviceRemoved","object":"Node/n","error":"400"`,
			"Kubernetes Event given up: DeviceRemoved about Node/n: 400"},
		{"an Event written", "recorder.recorded", `"reason":"DeviceRemoved","object":"Node/n","count":2`,
			"Kubernetes Event written: DeviceRemoved about Node/n (2 times)"},
		{"other reasons", "device.health", `"device":"d","old":"degraded","new":"degraded","reasons":["a","b"],"lasted_ms":62000`,
			"still degraded: a, b (was degraded for 1m2s)"},
		{"a health line without fields", "device.health", `"device":"d"`, "none → none"},
		{"a number as a text", "device.removed", `"device":"d","old":5,"lasted_ms":"long"`, "gone (was 5 for long)"},
		{"a duration of years", "stream.closed", `"resource":"r","lasted_ms":1e300`, "stream to the kubelet closed: none (open for 876000h0m0s)"},
		{"a negative one", "stream.closed", `"resource":"r","lasted_ms":-5`, "stream to the kubelet closed: none"},
		{"a retry at once", "registration.ended", `"resource":"r","reason":"asked to","retry_ms":0`, "registration ended: asked to"},
		{"a long text, cut between characters", "daemon.failed", `"error":"x` + long + `"`, "daemon failed: x" + long[:158] + "…"},
		{"unknown, with all kinds", "new.one", `"a":[1,"b"],"c":{"d":null},"e_ms":1500,"f":true,"g":"h i"`,
			`it happened [new.one] {"a":[1,"b"],"c":{"d":null},"e_ms":1500,"f":true,"g":"h i"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _ := read(t, timeline.Options{}, entry(noon, "info", test.event, test.fields))
			if diff := cmp.Diff(test.want, strings.TrimSpace(out[min(len(out), 50):])); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		})
	}
}
