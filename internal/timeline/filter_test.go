package timeline_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/timeline"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// bound parses a bound, typed at half past ten in a zone in which it is already the next day; "" is none.
func bound(t *testing.T, text string) timeline.Bound {
	t.Helper()
	if text == "" {
		return nil
	}
	return must.Value(timeline.ParseBound(text, time.Date(2026, 11, 21, 10, 30, 0, 0, time.FixedZone("far east", 9*3600))))(t) // 01:30 UTC
}

// events returns the events that a filter selects, each with its device, address or resource.
func events(t *testing.T, f timeline.Filter, log string) (events []string) {
	t.Helper()
	out, _ := read(t, timeline.Options{Filter: f}, log)
	for l := range strings.Lines(out) {
		events = append(events, strings.Fields(l)[1])
	}
	return events
}

// cardLog contains a line for each relation between a line and a device.
var cardLog = entry(noon, "info", "device.added", `"device":"3b:00.0","pci":"0000:3b:00.0","resource":"r/one","health":"healthy","reasons":[]`) +
	entry(noon, "info", "device.added", `"device":"3b:00.0-p1","pci":"0000:3b:00.0","resource":"r/two","health":"healthy","reasons":[]`) +
	entry(noon, "info", "device.added", `"device":"0001:3b:00.0","pci":"0001:3b:00.0","resource":"r/one","health":"healthy","reasons":[]`) +
	entry(noon, "warn", "scan.failed", `"pci":"0000:3b:00.0","count":3,"error":"no"`) +
	entry(noon, "warn", "scan.failed", `"error":"no"`) +
	entry(noon, "info", "list.sent", `"resource":"r/one","count":2,"devices":["3b:00.0","0001:3b:00.0"]`) +
	entry(noon, "info", "list.sent", `"resource":"r/long","count":9,"devices":["a","and 8 more"]`) +
	entry(noon, "info", "list.sent", `"resource":"r/first","count":2`) +
	entry(noon, "info", "list.sent", `"resource":"r/two","count":2`) +
	entry(noon, "info", "allocate.served", `"resource":"r/given","devices":["3b:00.0-p1"],"count":1`) +
	entry(noon, "info", "device.health", `"device":"3b:00.0-p1","pci":"0000:3b:00.0","old":"unhealthy","new":"healthy","reasons":[]`)

func TestDevice(t *testing.T) {
	first, second, other, card := "3b:00.0", "3b:00.0-p1", "0001:3b:00.0", "0000:3b:00.0"
	for _, test := range []struct {
		name    string
		devices []string
		want    []string
	}{
		{"a card, as lspci prints it", []string{"3b:00.0"}, []string{first, second, card, "r/one", "r/long", "r/first", "r/two", "r/given", second}},
		{"a card, with its domain", []string{"0000:3B:00.0"}, []string{first, second, card, "r/one", "r/long", "r/first", "r/two", "r/given", second}},
		{"its first port", []string{"3b:00.0-p0"}, []string{first, card, "r/one", "r/long", "r/first", "r/two"}},
		{"its second port", []string{"3b:00.0-p1"}, []string{second, card, "r/long", "r/first", "r/two", "r/given", second}},
		{"the same, with the domain", []string{"0000:3b:00.0-p1"}, []string{second, card, "r/long", "r/first", "r/two", "r/given", second}},
		{"one of another domain", []string{"0001:3b:00.0"}, []string{other, "r/one", "r/long", "r/first", "r/two"}},
		{"not an address", []string{"a"}, []string{"r/long", "r/first", "r/two"}},
		{"two", []string{"3b:00.0-p1", "0001:3b:00.0"}, []string{second, other, card, "r/one", "r/long", "r/first", "r/two", "r/given", second}},
	} {
		compare.Values(t, test.name+": subjects", test.want, events(t, timeline.Filter{Devices: test.devices}, cardLog))
	}
}

// The starts and ends of daemons concern every device.
func TestDeviceOverARestart(t *testing.T) {
	var log string
	for _, event := range []string{"daemon.started", "stream.opened", "daemon.stopping", "daemon.stopped", "daemon.failed", "mode.changed"} {
		log += entry(noon, "info", event, `"resource":"`+event+`"`)
	}
	want := []string{"daemon.started", "daemon.stopped", "daemon.failed", "mode.changed"}
	compare.Values(t, "events", want, events(t, timeline.Filter{Devices: []string{"d"}}, log))
}

// Events are selected by level and name.
func TestEvent(t *testing.T) {
	var log string
	for _, e := range [][2]string{
		{"debug", "uevent.received"}, {"debug", "device.released"}, {"info", "list.sent"}, {"info", "device.added"}, {"info", "http.served"},
		{"info", "something.new"}, {"warn", "http.failed"}, {"error", "cdi.failed"}, {"fatal", "daemon.failed"},
	} {
		log += entry(noon, e[0], e[1], `"device":"`+e[1]+`"`)
	}
	all := events(t, timeline.Filter{Level: level(zapcore.DebugLevel)}, log)
	if len(all) != 9 {
		t.Fatalf("at level debug: %q, want all 9", all)
	}
	for _, test := range []struct {
		name string
		f    timeline.Filter
		want []string
	}{
		{"no filter", timeline.Filter{}, []string{"list.sent", "device.added", "something.new", "http.failed", "cdi.failed", "daemon.failed"}},
		{"info", timeline.Filter{Level: level(zapcore.InfoLevel)}, all[2:]},
		{"warn", timeline.Filter{Level: level(zapcore.WarnLevel)}, all[6:]},
		{"error", timeline.Filter{Level: level(zapcore.ErrorLevel)}, all[7:]},
		{"a name", timeline.Filter{Events: []string{"http.served"}}, []string{"http.served"}},
		{"a pattern", timeline.Filter{Events: []string{"device.*"}}, []string{"device.released", "device.added"}},
		{"two", timeline.Filter{Events: []string{"http.*", "*.sent"}}, []string{"list.sent", "http.served", "http.failed"}},
		{"a pattern and a level", timeline.Filter{Events: []string{"http.*"}, Level: level(zapcore.WarnLevel)}, []string{"http.failed"}},
	} {
		compare.Values(t, test.name+": events", test.want, events(t, test.f, log))
	}
}

// The bounds select lines by their time. The wanted lines are given as DAY-HOUR.
func TestBounds(t *testing.T) {
	var utc, west []string
	for _, day := range []string{"2026-11-20", "2026-11-21"} {
		for _, hour := range []string{"00", "01", "22", "23"} {
			utc = append(utc, entry(day+"T"+hour+":00:00Z", "info", "x.y", `"device":"`+day[8:]+"-"+hour+`"`))
			west = append(west, entry(day+"T"+hour+":00:00-05:00", "info", "x.y", `"device":"`+day[8:]+"-"+hour+`"`))
		}
	}
	all := []string{"20-00", "20-01", "20-22", "20-23", "21-00", "21-01", "21-22", "21-23"}
	for _, test := range []struct {
		name, since, until string
		log                []string
		want               []string
	}{
		{"no bound", "", "", utc, all},
		{"an instant", "2026-11-20T22:00:00Z", "2026-11-21T01:00:00Z", utc, []string{"20-22", "20-23", "21-00"}},
		{"an instant in another zone", "2026-11-21T07:00:00.5+09:00", "", utc, all[3:]},
		{"a duration", "3h30m", "30m", utc, all[2:5]},
		{"a date", "2026-11-21", "", utc, all[4:]},
		{"a clock", "2026-11-20T23:00", "2026-11-21 00:00:01", utc, []string{"20-23", "21-00"}},
		{"the same of lines in another zone", "2026-11-20T23:00", "2026-11-21 00:00:01", west, []string{"20-23", "21-00"}},
		{"a time of day earlier today", "01:00", "", utc, all[5:]},
		{"a time of day later today", "23:00", "", utc, all[3:]},
		{"today in the zone of the lines", "00:00", "", west, all},
		{"over midnight", "22:30", "00:30", utc, []string{"20-23", "21-00"}},
		{"until alone", "", "01:00:00", utc, all[:5]},
	} {
		f := timeline.Filter{Since: bound(t, test.since), Until: bound(t, test.until)}
		compare.Values(t, test.name+": lines", test.want, events(t, f, strings.Join(test.log, "")))
	}
	for _, bad := range []string{"yesterday", "25:00", "-5m", "2026-13-01", "03", "5"} {
		compare.Error(t, fmt.Sprintf("ParseBound(%q)", bad), "", compare.ErrorOf(timeline.ParseBound(bad, time.Now())))
	}
}

// No part of a log reaches a terminal as a control sequence.
func TestHarmless(t *testing.T) {
	evil := "\\u001b]0;owned\\u0007\\u009b31m \x9b31m \u202egnp.exe \u009b \x7f \U000e0001 \\r\\n end"
	var log string
	for _, e := range []string{"device.health", "device.added", "device.tombstone", "list.sent", "allocate.refused", "scan.failed", "odd\\u001bone"} {
		log += entry(noon, "warn", e, `"device":"`+evil+`","old":"`+evil+`","new":"`+evil+`","reasons":["`+evil+`"],`+
			`"holders":["`+evil+`"],"error":"`+evil+`",`+
			`"devices":["`+evil+`"],"reason":"`+evil+`","odd`+"\u202e"+`":"`+evil+`"`)
	}
	log = strings.ReplaceAll(log, "\n", "\n\x1b[2Jfoo\x1b]evil bar {") // a prefix; each line but the first follows one
	log = strings.ReplaceAll(log, "bar {{", "bar {")
	for name, o := range map[string]timeline.Options{
		"text": {}, "JSON": {JSON: true}, "summary": {Summary: true}, "summary as JSON": {Summary: true, JSON: true},
	} {
		out, notes := read(t, o, log)
		if !strings.Contains(out, "owned") {
			t.Errorf("%s: nothing of it is shown:\n%s", name, out)
		}
		if all := out + strings.Join(notes, ""); !utf8.ValidString(all) || strings.ContainsFunc(all, harmful) {
			t.Errorf("%s: %q", name, all)
		}
	}
}

// harmful reports whether r may control a terminal, or be shown as another character.
func harmful(r rune) bool {
	turns := '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069'
	return r != '\n' && r < ' ' || 0x7f <= r && r < 0xa0 || turns || r == '\U000e0001'
}
