package timeline

import (
	"bytes"
	"strconv"
	"time"
)

// Level is the gravity of a line.
type Level int8

// The levels of lines, from the mildest.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Levels are the names of the levels, in their order.
var Levels = []string{"debug", "info", "warn", "error"}

// line is one line of the log. It lives until the next one is read.
type line struct {
	json    []byte // the object as it was written
	origin  []byte // pod or host that a prefix names, or nil
	time    time.Time
	level   Level
	event   []byte
	members []member
}

// verdict says what a line of text is.
type verdict int

const (
	ours verdict = iota
	unwanted
	others  // somebody else's line, or none of JSON
	broken  // it was ours once
	console // ours, in the format for people, which is not read
)

// parse reads an object into l, whose memory it uses again.
func (l *line) parse(data []byte) (v verdict, why string) {
	l.json = data
	var ok bool
	if l.members, ok = parseObject(data, l.members[:0]); !ok {
		if bytes.Contains(data, []byte(`"event":"`)) || bytes.HasPrefix(data, []byte(`{"level":"`)) {
			return broken, "no complete JSON object"
		}
		return others, ""
	}
	l.event = l.text("event")
	if len(l.event) == 0 {
		return others, ""
	}
	stamp, level := l.text("time"), l.text("level")
	if stamp == nil && level == nil && l.find("message") == nil {
		return console, ""
	}
	if l.level, ok = parseLevel(level); !ok {
		return broken, "no level"
	}
	var err error
	if l.time, err = time.Parse(time.RFC3339Nano, string(stamp)); err != nil || l.time.Year() < 1 {
		return broken, "no time"
	}
	return ours, ""
}

func parseLevel(name []byte) (Level, bool) {
	for i, known := range Levels {
		if string(name) == known {
			return Level(i), true
		}
	}
	switch string(name) { // what zap has above
	case "dpanic", "panic", "fatal":
		return Error, true
	}
	return 0, false
}

// find is the member with this key: the last, as encoding/json has it.
func (l *line) find(key string) *member {
	for i := len(l.members) - 1; i >= 0; i-- {
		if string(l.members[i].key) == key {
			return &l.members[i]
		}
	}
	return nil
}

// text is a field's text, nil where there is none.
func (l *line) text(key string) []byte {
	if m := l.find(key); m != nil && m.kind == text {
		return unquote(m.value)
	}
	return nil
}

// number is a field's number. ok is false where there is none.
func (l *line) number(key string) (n float64, ok bool) {
	m := l.find(key)
	if m == nil || m.kind != number {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(m.value), 64)
	return n, err == nil
}

// each calls f with each text of a list.
func (l *line) each(key string, f func([]byte)) {
	if m := l.find(key); m != nil && m.kind == list {
		s := scanner{data: m.value, at: 1}
		s.elements(func(k kind, value []byte) {
			if k == text {
				f(unquote(value))
			}
		}, 1)
	}
}

// is says whether the line's event is this one.
func (l *line) is(event string) bool { return string(l.event) == event }
