package logevent

import (
	"cmp"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Event is one kind of log line.
type Event struct {
	Name   string
	Part   string  // the heading of its table
	Levels []Level // the levels that its lines can have
	When   string  // when it is logged
	Must   []Field // the fields that every line has, in addition to the common ones
	May    []Field // the fields that a line may have
}

// Level is a log level at which some or all of an event's lines are written.
type Level struct {
	zapcore.Level
	When string // when a line has this level; "" means in all other cases
}

var (
	debug      = Level{zapcore.DebugLevel, ""}
	info       = Level{zapcore.InfoLevel, ""}
	warn       = Level{zapcore.WarnLevel, ""}
	errorLevel = Level{zapcore.ErrorLevel, ""}
)

// when returns l with a description of the lines that have this level.
func (l Level) when(text string) Level { return Level{l.Level, text} }

func levels(all ...Level) []Level { return all }
func must(all ...Field) []Field   { return all }
func may(all ...Field) []Field    { return all }

// row is an [Event] without its Part.
type row struct {
	name   zap.Field
	levels []Level
	when   string
	must   []Field
	may    []Field
}

// Events returns the catalogue: all log events, in the order of the documentation.
func Events() []Event {
	var all []Event
	for _, part := range parts() {
		for _, r := range part.rows {
			all = append(all, Event{Name: r.name.String, Part: part.title, Levels: r.levels, When: r.when, Must: r.must, May: r.may})
		}
	}
	return all
}

// Fields returns the fields of all events except the common ones, sorted by key.
func Fields() []Field {
	var all []Field
	for _, e := range Events() {
		all = append(append(all, e.Must...), e.May...)
	}
	slices.SortFunc(all, func(a, b Field) int { return cmp.Compare(a.Key, b.Key) })
	return slices.Compact(all)
}

// Common returns the fields that every line has, except that the logger field may be missing.
func Common() []Field {
	return []Field{
		{"time", Text, "", "time of the line: ISO 8601 with nanoseconds and the offset to UTC"},
		{"level", Text, "", "`debug`, `info`, `warn`, `error`"},
		{"message", Text, "", "what happened: a constant text. Select lines by `event`, because messages may change"},
		{"event", Text, "", "stable name of the event"},
		{"logger", Text, "", "part of the daemon that logged the line; missing for the daemon as a whole"},
	}
}

// Keys returns an encoder configuration with the keys and value formats of the common fields.
func Keys() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "message",
		EncodeTime:     zapcore.TimeEncoderOfLayout(TimeLayout),
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.MillisDurationEncoder,
		EncodeName:     zapcore.FullNameEncoder,
	}
}

// TimeLayout is the format of the time field: RFC 3339 with nanoseconds.
const TimeLayout = "2006-01-02T15:04:05.000000000Z07:00"
