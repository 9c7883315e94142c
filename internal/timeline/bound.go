package timeline

import (
	"fmt"
	"time"
)

// Bound is an end of the time that is looked at. The zero Bound is none.
//
// One that was given without a zone means the clock of the lines: what they show
// is what is typed.
type Bound struct {
	form form
	at   time.Time // in UTC, where only its numbers count
	now  time.Time // when it was typed
}

type form byte

const (
	none    form = iota
	instant      // with a zone, or counted from now
	clock        // a day, and a time on it
	daily        // a time of day: the last that was
)

// layouts of a clock, as people type it. Parsing takes fractions of seconds, too.
var layouts = []struct {
	layout string
	form   form
}{
	{"2006-01-02T15:04:05", clock},
	{"2006-01-02 15:04:05", clock},
	{"2006-01-02T15:04", clock},
	{"2006-01-02 15:04", clock},
	{"2006-01-02", clock},
	{"15:04:05", daily},
	{"15:04", daily},
}

// ParseBound reads an RFC 3339 time, a duration before now (90m), a date, a date
// and a time, or a time of day.
func ParseBound(s string, now time.Time) (Bound, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return Bound{instant, t, now}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return Bound{instant, now.Add(-d), now}, nil
	}
	for _, l := range layouts {
		if t, err := time.Parse(l.layout, s); err == nil {
			return Bound{l.form, t, now}, nil
		}
	}
	return Bound{}, fmt.Errorf("%q: want a time (03:12, 2026-11-21T03:12, 2026-11-21T03:12:00Z) or a duration before now (90m)", s)
}

// on is the instant that is meant by a clock in this zone.
func (b Bound) on(zone *time.Location) time.Time {
	if b.form == instant {
		return b.at
	}
	year, month, day := b.at.Date()
	if b.form == daily {
		year, month, day = b.now.In(zone).Date()
	}
	t := time.Date(year, month, day, b.at.Hour(), b.at.Minute(), b.at.Second(), b.at.Nanosecond(), zone)
	if b.form == daily && t.After(b.now) {
		t = t.AddDate(0, 0, -1)
	}
	return t
}

// window is from when until when lines of a zone are looked at; a zero time is no
// bound. Of two times of day, until is the one that follows since.
func (f *Filter) window(zone *time.Location) (begin, end time.Time) {
	if f.Since.form != none {
		begin = f.Since.on(zone)
	}
	if f.Until.form != none {
		end = f.Until.on(zone)
	}
	if f.Since.form == daily && f.Until.form == daily && !end.After(begin) {
		end = end.AddDate(0, 0, 1)
	}
	return begin, end
}

// phase is where a time lies to those that bound what is looked at.
type phase byte

const (
	before phase = iota
	within
	after
)

// phaseOf is that of t. It is within when it is begin, and after when it is end.
func phaseOf(t, begin, end time.Time) phase {
	switch {
	case t.Before(begin):
		return before
	case end.IsZero() || t.Before(end):
		return within
	}
	return after
}
