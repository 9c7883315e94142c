package timeline

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// line is a line from the daemon's log.
type line struct {
	json   []byte // the object as it was written
	origin string // the pod or host in the prefix; "" if there is none
	time   time.Time
	level  zapcore.Level
	event  string
	fields map[string]any
	of     *burst // the burst that the line belongs to; nil if there is none
	steps  string // for a folded line, the reasons from the lines in it
}

// prefix matches what `kubectl logs --prefix` and journalctl print before a line, including the name of the pod or the
// host. journalctl prints the host after the time, or not at all with --no-hostname.
var prefix = regexp.MustCompile(`^\[pod/([\w.-]+)/| ([\w.-]+) \S+\[\d+\]: $`)

// parse parses a line of the daemon's output, whether or not it has a prefix.
func parse(text []byte) (l line, ok bool) {
	begin := max(0, bytes.Index(text, []byte(`{"`)))
	l.json = bytes.TrimSpace(text[begin:])
	if json.Unmarshal(l.json, &l.fields) != nil {
		return l, false
	}
	if m := prefix.FindSubmatch(text[:min(begin, 1024)]); m != nil {
		l.origin = string(m[1]) + string(m[2])
	}
	level, err := zapcore.ParseLevel(l.text("level"))
	if err != nil || l.text("level") == "" { // ParseLevel parses "" as info
		return l, false
	}
	l.event, l.level = l.text("event"), level
	l.time, err = time.Parse(time.RFC3339Nano, l.text("time"))
	return l, l.event != "" && err == nil && l.time.Year() > 0
}

// text returns a field's string, or "" if there is none.
func (l *line) text(key string) string {
	text, _ := l.fields[key].(string)
	return text
}

// texts returns a list field's strings.
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

// duration returns the duration in a field whose value is in milliseconds, or 0 if there is no such field.
func (l *line) duration(key string) time.Duration {
	ms, _ := l.fields[key].(float64)
	const century = 100 * 365 * 24 * time.Hour // a Duration can hold at most 292 years
	return time.Duration(max(0, min(ms, float64(century/time.Millisecond))) * float64(time.Millisecond))
}

// isMore reports whether a list element stands for omitted elements, as in "and 3 more".
func isMore(text string) bool {
	return strings.HasPrefix(text, "and ") && strings.HasSuffix(text, " more")
}
