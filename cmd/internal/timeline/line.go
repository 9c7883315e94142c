package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap/zapcore"
)

// line is one line of the daemon's log.
type line struct {
	json   []byte // the object as it was written; valid until the next line is read
	origin string // pod or host in the prefix; "": none
	time   time.Time
	level  zapcore.Level
	event  string
	fields map[string]any
	aside  string // of a folded line: text for its end
}

// Errors of parse for lines that are complete, but not lines of the daemon in JSON.
var (
	errForeign = errors.New("foreign line")
	errConsole = errors.New("line of --log-format console")
)

// parse parses a JSON object. If the error is errForeign, the line has the object's fields.
func parse(data []byte) (line, error) {
	var value any
	if json.Unmarshal(data, &value) != nil {
		if bytes.Contains(data, []byte(`"event":"`)) || bytes.HasPrefix(data, []byte(`{"level":"`)) {
			return line{}, errors.New("no complete JSON object")
		}
		return line{}, errForeign
	}
	l := line{json: data}
	l.fields, _ = value.(map[string]any)
	if l.event = l.text("event"); l.event == "" {
		return l, errForeign
	}
	if l.text("time") == "" && l.text("level") == "" && l.text("message") == "" {
		return l, errConsole // in that format the line ends with a JSON object of its fields
	}
	var err error
	if l.level, err = zapcore.ParseLevel(l.text("level")); err != nil || l.text("level") == "" { // ParseLevel returns info for ""
		return l, errors.New("no level")
	}
	if l.time, err = time.Parse(time.RFC3339Nano, l.text("time")); err != nil || l.time.Year() < 1 {
		return l, errors.New("no time")
	}
	return l, nil
}

// text returns the string in a field, or "" if there is none.
func (l *line) text(key string) string {
	text, _ := l.fields[key].(string)
	return text
}

// texts returns the strings in a field that is a list.
func (l *line) texts(key string) []string {
	list, _ := l.fields[key].([]any)
	var texts []string
	for _, v := range list {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// duration returns the duration in a field, which is in milliseconds, or 0 if there is none.
func (l *line) duration(key string) time.Duration {
	ms, _ := l.fields[key].(float64)
	const century = 100 * 365 * 24 * time.Hour // a Duration holds 292 years at most
	return time.Duration(max(0, min(ms, float64(century/time.Millisecond))) * float64(time.Millisecond))
}
