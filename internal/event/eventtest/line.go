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

	"b-com.com/accelerator-device-plugin/internal/event"
)

// catalogue is what is declared, by name.
var catalogue = sync.OnceValue(func() map[string]event.Event {
	all := map[string]event.Event{}
	for _, e := range event.Events() {
		all[e.Name] = e
	}
	return all
})

// Line says what is wrong with a line of the log, a JSON object; nil if nothing is.
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
		return fmt.Errorf("event %q is not declared", name)
	}
	problems := []error{common(line)}
	if !slices.ContainsFunc(e.Levels, func(l event.Level) bool { return l.String() == line["level"] }) {
		problems = append(problems, fmt.Errorf("%s has no level %v", name, line["level"]))
	}
	fields := map[string]event.Field{}
	for _, f := range slices.Concat(event.Common(), e.Must, e.May) {
		fields[f.Key] = f
	}
	for _, f := range e.Must {
		if line[f.Key] == nil {
			problems = append(problems, fmt.Errorf("%s lacks its field %s", name, f.Key))
		}
	}
	for key, value := range line {
		f, declared := fields[key]
		if !declared {
			problems = append(problems, fmt.Errorf("%s has no field %s", name, key))
		} else if !is(f.Type, value) {
			problems = append(problems, fmt.Errorf("%s of %s is %T, want %s", key, name, value, f.Type))
		}
	}
	return errors.Join(problems...)
}

// common checks what each line has.
func common(line map[string]any) error {
	text, _ := line["time"].(string)
	_, err := time.Parse(event.TimeLayout, text)
	if line["message"] == nil || line["message"] == "" {
		err = errors.Join(err, errors.New("message is missing"))
	}
	return err
}

// is says whether a decoded value has this type.
func is(want event.Type, value any) bool {
	switch v := value.(type) {
	case string:
		return want == event.Text
	case json.Number:
		return want == event.Decimal || want == event.Whole && !strings.ContainsAny(v.String(), ".eE")
	case []any:
		return want == event.List && !slices.ContainsFunc(v, func(one any) bool { _, ok := one.(string); return !ok })
	}
	return false
}

// decode decodes an object, each of whose keys may be there once.
func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.Join(errors.New("line is no JSON object"), err)
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
			return nil, fmt.Errorf("%s is there twice", key)
		}
		line[key.(string)] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("line goes on behind its object")
	}
	return line, nil
}
