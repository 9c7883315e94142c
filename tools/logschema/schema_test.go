package logschema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// compile compiles the schema, which must name draft 2020-12.
func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text := must.Value(os.ReadFile("../../docs/logs.schema.json"))(t)
	document := must.Value(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must.Succeed(t, c.AddResource("logs.schema.json", document))
	s := must.Value(c.Compile("logs.schema.json"))(t)
	compare.Equal(t, "draft of the schema", 2020, s.DraftVersion)
	return s
}

// validate validates a line against the schema.
func validate(s *jsonschema.Schema, line []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// The recorded log of a whole hot-plug story conforms to the schema.
func TestStory(t *testing.T) {
	s := compile(t)
	text := must.Value(os.ReadFile("../../internal/timeline/testdata/hotplug.log"))(t)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) < 30 {
		t.Fatalf("hotplug.log: found %d lines, want at least 30", len(lines))
	}
	for _, line := range lines {
		compare.NoError(t, line, validate(s, []byte(line)))
	}
}

// sample returns a value of a field's type.
func sample(f logevent.Field) any {
	if f.Key == "time" {
		return "2026-11-21T20:56:34.463023314+01:00"
	}
	return map[logevent.Type]any{logevent.Text: "some text", logevent.List: []string{"one", "two"}, logevent.Whole: 7, logevent.Decimal: 0.5}[f.Type]
}

// lineOf returns a line with the fields that the event must have, and the given ones.
func lineOf(e logevent.Event, fields ...logevent.Field) map[string]any {
	line := map[string]any{}
	for _, f := range slices.Concat(logevent.Common(), e.Must, fields) {
		line[f.Key] = sample(f)
	}
	line["event"], line["level"] = e.Name, e.Levels[0].String()
	return line
}

// For each event, the schema and the check eventtest.Line accept and refuse the same lines. So
// every line that another test has checked conforms to the schema.
func TestSchemaAgreesWithCheck(t *testing.T) {
	s := compile(t)
	check := func(name string, line map[string]any, valid bool) {
		t.Helper()
		text := must.Value(json.Marshal(line))(t)
		if err := validate(s, text); (err == nil) != valid {
			t.Errorf("%s: schema: got %v, want valid %v\n%s", name, err, valid, text)
		}
		if err := eventtest.Line(text); (err == nil) != valid {
			t.Errorf("%s: eventtest.Line: got %v, want valid %v\n%s", name, err, valid, text)
		}
	}
	for _, e := range logevent.Events() {
		full := lineOf(e, e.May...)
		check(e.Name+", all fields", full, true)
		check(e.Name+", mandatory fields only", lineOf(e), true)
		for _, level := range []string{"debug", "info", "warn", "error", "fatal"} {
			may := slices.ContainsFunc(e.Levels, func(l logevent.Level) bool { return l.String() == level })
			check(e.Name+" at "+level, with(full, "level", level), may)
		}
		for _, f := range slices.Concat(logevent.Common(), e.Must, e.May) {
			optional := f.Key == "logger" || slices.Contains(e.May, f)
			check(e.Name+" without "+f.Key, with(full, f.Key, nil), optional)
			for _, other := range []any{"text", []string{"list"}, []int{1}, 3, 0.5, true, map[string]any{}} {
				if is := fmt.Sprintf("%T", other); is != fmt.Sprintf("%T", sample(f)) && !(f.Type == logevent.Decimal && is == "int") {
					check(fmt.Sprintf("%s, %s is %s", e.Name, f.Key, is), with(full, f.Key, other), false)
				}
			}
		}
		for _, f := range append(logevent.Fields(), logevent.Field{Key: "unit", Type: logevent.Text}) {
			if _, has := full[f.Key]; !has {
				check(e.Name+" with "+f.Key, with(full, f.Key, sample(f)), false)
			}
		}
		for _, at := range []string{"2026-11-21T20:56:34Z", "2026-11-21T20:56:34.463Z", "2026-11-21T20:56:34.463023314", "2026-13-21T20:56:34.463023314Z", "now"} {
			check(e.Name+" at "+at, with(full, "time", at), false)
		}
	}
	check("no message", with(lineOf(logevent.Events()[0]), "message", ""), false)
	check("unknown event", with(lineOf(logevent.Events()[0]), "event", "device.wealth"), false)
}

// with returns a copy of the line with another value of a field, or without the field if value is
// nil.
func with(line map[string]any, key string, value any) map[string]any {
	line = maps.Clone(line)
	if line[key] = value; value == nil {
		delete(line, key)
	}
	return line
}
