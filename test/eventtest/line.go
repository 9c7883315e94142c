package eventtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// catalogue returns the declared events, keyed by name.
var catalogue = sync.OnceValue(func() map[string]logevent.Event {
	all := map[string]logevent.Event{}
	for _, e := range logevent.Events() {
		all[e.Name] = e
	}
	return all
})

// Line checks a log line (a JSON object) against the declaration of its event, and returns an error if they don't
// match.
func Line(text []byte) error {
	line, err := decode(text)
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	if err := check(line); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}

func check(line map[string]any) error {
	name, _ := line["event"].(string)
	e, declared := catalogue()[name]
	if !declared {
		return fmt.Errorf("event: found %q, want a declared one", name)
	}
	problems := []error{common(line)}
	if !slices.ContainsFunc(e.Levels, func(l logevent.Level) bool { return l.String() == line["level"] }) {
		problems = append(problems, fmt.Errorf("%s: found level %v, want one of its levels", name, line["level"]))
	}
	fields := map[string]logevent.Field{}
	for _, f := range slices.Concat(logevent.Common(), e.Must, e.May) {
		fields[f.Key] = f
	}
	for _, f := range e.Must {
		if line[f.Key] == nil {
			problems = append(problems, fmt.Errorf("%s: field %s: found none, want a value", name, f.Key))
		}
	}
	for key, value := range line {
		f, declared := fields[key]
		if !declared {
			problems = append(problems, fmt.Errorf("%s: found field %s, want a declared one", name, key))
		} else if !is(f.Type, value) {
			problems = append(problems, fmt.Errorf("%s: field %s: found %T, want %s", name, key, value, f.Type))
		}
	}
	return errors.Join(problems...)
}

// common checks the fields that every line has.
func common(line map[string]any) error {
	text, _ := line["time"].(string)
	_, err := time.Parse(logevent.TimeLayout, text)
	if line["message"] == nil || line["message"] == "" {
		err = errors.Join(err, errors.New("message: found none, want a text"))
	}
	return err
}

// is reports whether a decoded value has the given type.
func is(want logevent.Type, value any) bool {
	switch v := value.(type) {
	case string:
		return want == logevent.Text
	case json.Number:
		return want == logevent.Decimal || want == logevent.Whole && !strings.ContainsAny(v.String(), ".eE")
	case []any:
		return want == logevent.List && !slices.ContainsFunc(v, func(one any) bool { _, ok := one.(string); return !ok })
	}
	return false
}

// decode decodes a JSON object. Unlike [json.Unmarshal], it returns an error if a key occurs twice.
func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.Join(errors.New("line: found no JSON object, want one"), err)
	}
	line := map[string]any{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := line[key.(string)]; twice {
			return nil, fmt.Errorf("field %s: found twice, want it once", key)
		}
		line[key.(string)] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("line: found text after its object, want none")
	}
	return line, nil
}
