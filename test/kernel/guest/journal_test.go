package main

import (
	"bytes"
	"strings"
	"testing"
)

const log = `{"event":"device.added","device":"01:00.0","time":"2026-11-21T10:00:00.000000001Z","nodes":["dfl-port.0","dfl-port.1"],"ok":true,"count":2}
not JSON
{"event":"device.health","device":"01:00.0","new":"unhealthy","reasons":[],"time":"yesterday"}

[1]
{"event":"device.added","device":"01:00.0","time":"2026-11-21T10:00:05Z"}
{"event":"unfinished"}`

func journalOf(t testing.TB, text string) *journal {
	t.Helper()
	var copied bytes.Buffer
	j := &journal{copy: &copied}
	j.read(strings.NewReader(text))
	if copied.String() != text {
		t.Errorf("copy: got %q, want %q", copied.String(), text)
	}
	return j
}

func TestJournal(t *testing.T) {
	j := journalOf(t, log)
	for _, tc := range []struct {
		name   string
		event  string
		fields map[string]string
		want   []bool // what successive calls return
	}{
		{"list", "device.added", map[string]string{"nodes": "dfl-port.0,dfl-port.1"}, []bool{true, false}},
		{"second of two lines", "device.added", nil, []bool{true, false}},
		{"number and truth", "device.added", map[string]string{"count": "2", "ok": "true"}, []bool{false}},
		{"empty list", "device.health", map[string]string{"reasons": "", "new": "unhealthy"}, []bool{true, false}},
		{"another value", "device.health", map[string]string{"new": "healthy"}, []bool{false}},
		{"no such event", "device.removed", nil, []bool{false}},
		{"not JSON", "", map[string]string{"text": "not JSON\n"}, []bool{true, false}},
		{"last line without newline", "unfinished", nil, []bool{true}},
	} {
		for i, want := range tc.want {
			if got := j.find(tc.event, tc.fields, true); got != want {
				t.Errorf("%s, call %d: got %v, want %v", tc.name, i+1, got, want)
			}
		}
	}
	// A call without take still finds a line that was taken.
	if !j.find("device.added", map[string]string{"count": "2"}, false) {
		t.Error("taken line: not found without take")
	}
}
