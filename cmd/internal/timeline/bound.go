package timeline

import (
	"fmt"
	"time"
)

// Bound is the beginning or the end of a time range. The zero Bound means that there is no bound.
//
// A Bound without a zone is in the zone of the lines, so that a user can type a time as the lines
// show it.
type Bound struct {
	form form
	at   time.Time // for a form without a zone: the date and time as typed, in UTC
	now  time.Time // when the Bound was parsed
}

type form byte

const (
	none    form = iota
	instant      // with a zone, or counted from now
	clock        // a date, and a time of day
	daily        // a time of day: the last one before now
)

// layouts has the forms without a zone by layout. time.Parse also accepts fractions of seconds.
var layouts = map[string]form{
	"2006-01-02T15:04:05": clock,
	"2006-01-02 15:04:05": clock,
	"2006-01-02T15:04":    clock,
	"2006-01-02 15:04":    clock,
	"2006-01-02":          clock,
	"15:04:05":            daily,
	"15:04":               daily,
}

// ParseBound parses an RFC 3339 time, a duration before now (90m), a date, a date and a
// time, or a time of day.
func ParseBound(s string, now time.Time) (Bound, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return Bound{instant, t, now}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return Bound{instant, now.Add(-d), now}, nil
	}
	for layout, form := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			return Bound{form, t, now}, nil
		}
	}
	return Bound{}, fmt.Errorf("found %q, want a time (03:12, 2026-11-21T03:12, 2026-11-21T03:12:00Z)"+
		" or a duration before now (90m)", s)
}

// in returns the instant of the Bound for lines of this zone, or the zero time if there is no bound.
func (b Bound) in(zone *time.Location) time.Time {
	if b.form == none || b.form == instant {
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

// window returns the time range for lines of this zone; a zero time means that there is no bound. If
// both bounds are times of day, Until is the first such time after Since, even if it is in the future.
func (f *Filter) window(zone *time.Location) (begin, end time.Time) {
	begin, end = f.Since.in(zone), f.Until.in(zone)
	if f.Since.form == daily && f.Until.form == daily && !end.After(begin) {
		end = end.AddDate(0, 0, 1)
	}
	return begin, end
}
