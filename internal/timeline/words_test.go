package timeline_test

import (
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/timeline"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// The text for lines that the log of TestGolden does not have, and for lines with missing or unexpected fields.
func TestWords(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, test := range []struct{ name, event, fields, want string }{
		{"a list without count", "list.sent", `"resource":"r"`, "list sent: complete"},
		{"a first list", "list.sent", `"resource":"r","count":3,"unhealthy":["a","b"],"latency_ms":2`,
			"list sent: complete, unhealthy: a, b (3 in all; 2.00 ms after the hint)"},
		{"a list of all kinds", "list.sent", `"resource":"r","count":9,"devices":["a","b","c","d","e","and 3 more"],"unhealthy":["b","e","and 1 more"],"gone":["c"]`,
			"list sent: b, e unhealthy; c off the list; a, d healthy; and 3 more (9 in all)"},
		{"slices", "slices.published", `"resource":"r","count":2,"slices":1,"tainted":1,"devices":["a"],"unhealthy":["a"]`, "slices published: a unhealthy (2 in all, 1 tainted)"},
		{"a claim", "claim.prepared", `"resource":"r","claim":"default/a","devices":["a","b"],"lasted_ms":12`, "prepared for claim default/a: a, b (took 12.0 ms)"},
		{"a claim that is refused", "claim.refused", `"resource":"r","claim":"default/a","reason":"a is unhealthy"`, "refused for claim default/a: a is unhealthy"},
		{"a start on a node", "daemon.started", `"version":"v1","pid":7,"mode":"af","node":"worker-3"`, "daemon started, version v1, mode af, node worker-3"},
		{"a card programmed", "programming.done", `"device":"d","afu":"d842","lasted_ms":2102.18`, "programmed for a container: AFU d842 (took 2.10 s)"},
		{"a health line", "device.health", `"device":"d","old":"degraded","new":"degraded","reasons":["a","b"],"lasted_ms":62000`,
			"still degraded: a, b (was degraded for 1m2s)"},
		{"a health line without fields", "device.health", `"device":"d"`, "none → none"},
		{"a number as a text", "device.removed", `"device":"d","old":5,"lasted_ms":"long"`, "gone (was 5 for long)"},
		{"a duration of years", "stream.closed", `"resource":"r","lasted_ms":1e300`, "stream to the kubelet closed: none (open for 876000h0m0s)"},
		{"a negative one", "stream.closed", `"resource":"r","lasted_ms":-5`, "stream to the kubelet closed: none"},
		{"a long text, cut between characters", "programming.failed", `"error":"x` + long + `"`, "container not started: x" + long[:158] + "…"},
		{"without a phrase", "scan.failed", `"pci":"0000:3b:00.0","count":1,"retry_ms":500,"error":"no"`, "it happened: no (count 1; retry 500 ms)"},
		{"unknown, with all kinds", "new.one", `"a":[1,"b"],"c":{"d":null},"f":true,"g":"h\ti","j":null`, `it happened (a b; c {"d":null}; f true; g h\ti)`},
		{"a field twice, of which the last counts", "device.held", `"device":"d","holders":["a"],"holders":["b"]`, "in use by b"},
	} {
		out, _ := read(t, timeline.Options{}, entry(noon, "info", test.event, test.fields))
		compare.Values(t, test.name+": words", test.want, strings.TrimSpace(out[min(len(out), 50):]))
	}
}

// The text of an event has all of its fields: a line with the fields that the catalogue demands, and no others,
// lacks nothing.
func TestWordsOfAllEvents(t *testing.T) {
	values := map[logevent.Type]string{logevent.Text: `"x"`, logevent.List: `["x"]`, logevent.Whole: "1", logevent.Decimal: "1"}
	for _, e := range logevent.Events() {
		var fields []string
		for _, f := range e.Must {
			fields = append(fields, `"`+f.Key+`":`+values[f.Type])
		}
		out, _ := read(t, timeline.Options{}, entry(noon, "warn", e.Name, strings.Join(fields, ",")))
		if text := out[min(len(out), 50):]; text == "" || strings.Contains(text, "none") {
			t.Errorf("%s: %q, want a text with all fields", e.Name, text)
		}
	}
}
