package eventtest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/event/eventtest"
)

const good = `{"level":"warn","time":"2026-11-21T20:56:34.463023314Z","logger":"inventory","message":"device health changed",` +
	`"device":"3b:00.0","event":"device.health","old":"healthy","new":"unhealthy","reasons":["port-ap6"],"lasted_ms":13.9,"latency_ms":1}`

func TestLine(t *testing.T) {
	for _, tc := range []struct {
		name, old, new string
		says           string // "": nothing is wrong
	}{
		{"good", "", "", ""},
		{"offset", "314Z", "314+02:00", ""},
		{"no object", "{", "[{", "no JSON object"},
		{"broken", `"level"`, `level`, "invalid character"},
		{"more behind it", `"latency_ms":1}`, `"latency_ms":1} {}`, "goes on"},
		{"twice the same", `"device":"3b:00.0"`, `"device":"3b:00.0","device":"5e:00.0"`, "device is there twice"},
		{"no event", `"event":"device.health",`, "", `event "" is not declared`},
		{"event not declared", "device.health", "device.wealth", `event "device.wealth" is not declared`},
		{"wrong level", `"warn"`, `"error"`, "no level error"},
		{"field not declared", `"device":`, `"unit":"3b:00.0","device":`, "no field unit"},
		{"field of another event", `"device":`, `"rev":7,"device":`, "no field rev"},
		{"field missing", `"reasons":["port-ap6"],`, "", "lacks its field reasons"},
		{"text is a number", `"device":"3b:00.0"`, `"device":3`, "device of device.health"},
		{"number is a text", `"lasted_ms":13.9`, `"lasted_ms":"13.9"`, "lasted_ms of device.health"},
		{"list is a text", `["port-ap6"]`, `"port-ap6"`, "reasons of device.health"},
		{"list of numbers", `["port-ap6"]`, `[6]`, "reasons of device.health"},
		{"no message", `"device health changed"`, `""`, "message is missing"},
		{"milliseconds only", "34.463023314Z", "34.463Z", "parsing time"},
		{"no offset", "314Z", "314", "parsing time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := eventtest.Line([]byte(strings.Replace(good, tc.old, tc.new, 1)))
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("Line = %v, want %q in it", err, tc.says)
			}
		})
	}
}

// Whatever a line is, it is judged; what is good is JSON.
func FuzzLine(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"event":"device.health","event":null}`))
	f.Add([]byte(`{"reasons":[1,{"a":[]}],"time":"2026`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := eventtest.Line(text); err == nil && !json.Valid(text) {
			t.Errorf("%q is no JSON, and is good", text)
		}
	})
}
