package eventtest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/eventtest"
)

const good = `{"level":"warn","time":"2026-11-21T20:56:34.463023314Z","logger":"inventory","message":"device health changed",` +
	`"device":"3b:00.0","event":"device.health","old":"healthy","new":"unhealthy","reasons":["port-ap6"],"lasted_ms":13.9,"latency_ms":1}`

func TestLine(t *testing.T) {
	for _, tc := range []struct {
		name, old, new string
		err            string // part of the error; "" if there is none
	}{
		{"good", "", "", ""},
		{"offset", "314Z", "314+02:00", ""},
		{"no object", "{", "[{", "found no JSON object"},
		{"broken", `"level"`, `level`, "invalid character"},
		{"text after it", `"latency_ms":1}`, `"latency_ms":1} {}`, "found text after its object"},
		{"twice the same", `"device":"3b:00.0"`, `"device":"3b:00.0","device":"5e:00.0"`, "device: found twice"},
		{"no event", `"event":"device.health",`, "", `event: found ""`},
		{"event not declared", "device.health", "device.wealth", `event: found "device.wealth"`},
		{"wrong level", `"warn"`, `"error"`, "found level error"},
		{"field not declared", `"device":`, `"unit":"3b:00.0","device":`, "found field unit"},
		{"field of another event", `"device":`, `"rev":7,"device":`, "found field rev"},
		{"field missing", `"reasons":["port-ap6"],`, "", "field reasons: found none"},
		{"text is a number", `"device":"3b:00.0"`, `"device":3`, "device.health: field device"},
		{"number is a text", `"lasted_ms":13.9`, `"lasted_ms":"13.9"`, "device.health: field lasted_ms"},
		{"list is a text", `["port-ap6"]`, `"port-ap6"`, "device.health: field reasons"},
		{"list of numbers", `["port-ap6"]`, `[6]`, "device.health: field reasons"},
		{"no message", `"device health changed"`, `""`, "message: found none"},
		{"milliseconds only", "34.463023314Z", "34.463Z", "parsing time"},
		{"no offset", "314Z", "314", "parsing time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := eventtest.Line([]byte(strings.Replace(good, tc.old, tc.new, 1)))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("Line = %v, want %q in it", err, tc.err)
			}
		})
	}
}

// Whatever the input, Line accepts only JSON.
func FuzzLine(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"event":"device.health","event":null}`))
	f.Add([]byte(`{"reasons":[1,{"a":[]}],"time":"2026`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := eventtest.Line(text); err == nil && !json.Valid(text) {
			t.Errorf("Line(%q): found no error, want one", text)
		}
	})
}
