package logevent_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

// object is a JSON object.
type object map[string]any

// docs/logs.schema.json has the catalogue as a JSON schema.
func TestSchema(t *testing.T) {
	golden.Compare(t, "../../docs/logs.schema.json", layOut(t, schema()))
}

// layOut returns the schema as readable text: one line for each field, and one for each event.
func layOut(t *testing.T, schema object) string {
	t.Helper()
	var lines []string
	marshal := func(v any) string {
		text := &strings.Builder{}
		encoder := json.NewEncoder(text)
		encoder.SetEscapeHTML(false)
		must.Succeed(t, encoder.Encode(v))
		return strings.TrimSpace(text.String())
	}
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		value := marshal(schema[key])
		switch v := schema[key].(type) {
		case object:
			var all []string
			for _, name := range slices.Sorted(maps.Keys(v)) {
				all = append(all, marshal(name)+": "+marshal(v[name]))
			}
			value = "{\n    " + strings.Join(all, ",\n    ") + "\n  }"
		case []object:
			var all []string
			for _, one := range v {
				all = append(all, marshal(one))
			}
			value = "[\n    " + strings.Join(all, ",\n    ") + "\n  ]"
		}
		lines = append(lines, marshal(key)+": "+value)
	}
	return "{\n  " + strings.Join(lines, ",\n  ") + "\n}\n"
}

// schema returns the schema: the fields and their types, and for each event its required and
// optional fields.
func schema() object {
	properties := object{}
	for _, f := range append(logevent.Common(), logevent.Fields()...) {
		properties[f.Key] = property(f)
	}
	var names []string
	var each []object
	for _, e := range logevent.Events() {
		names = append(names, e.Name)
		each = append(each, object{
			"if":   object{"properties": object{"event": object{"const": e.Name}}, "required": []string{"event"}},
			"then": rules(e),
		})
	}
	properties["event"].(object)["enum"] = names
	properties["level"].(object)["enum"] = []string{"debug", "info", "warn", "error"}
	properties["message"].(object)["minLength"] = 1
	properties["time"].(object)["format"] = "date-time"
	properties["time"].(object)["pattern"] = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d)$`
	return object{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "A line of the log of accelerator-device-plugin",
		"description":          "Written by go test ./internal/logevent -update. See log-events.md.",
		"type":                 "object",
		"required":             []string{"time", "level", "message", "event"},
		"properties":           properties,
		"additionalProperties": false,
		"allOf":                each,
	}
}

func property(f logevent.Field) object {
	p := object{"type": string(f.Type), "description": f.Means}
	if f.Type == logevent.List {
		p["items"] = object{"type": "string"}
	}
	if f.Unit != "" {
		p["description"] = f.Means + " (" + f.Unit + ")"
	}
	return p
}

// rules returns the schema of the lines with this event.
func rules(e logevent.Event) object {
	var levels []string
	for _, l := range e.Levels {
		levels = append(levels, l.String())
	}
	all := append(append(keys(logevent.Common()), keys(e.Must)...), keys(e.May)...)
	r := object{
		"description":   e.When,
		"properties":    object{"level": object{"enum": levels}},
		"propertyNames": object{"enum": all},
	}
	if len(e.Must) > 0 {
		r["required"] = keys(e.Must)
	}
	return r
}
