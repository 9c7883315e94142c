package timeline

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Filter selects lines. The zero Filter selects lines of level Info and above, except Info lines of http.served,
// socket.removed and library.log.
type Filter struct {
	Devices      []string       // device ids or card addresses
	Events       []string       // names or patterns; if there are none, only Level counts
	Level        *zapcore.Level // selects lines of this level and above; nil means the same as in the zero Filter
	Since, Until Bound          // lines at or after Since and before Until; nil means no bound
}

// check normalizes the devices. It returns an error if a pattern doesn't match any event or a device is empty.
func (f *Filter) check() error {
	for _, pattern := range f.Events {
		if !slices.ContainsFunc(logevent.Events(), func(e logevent.Event) bool { return matches(pattern, e.Name) }) {
			return fmt.Errorf("event: found %q, want an event of docs/log-events.md (device.removed), or a pattern of some (device.*)", pattern)
		}
	}
	f.Devices = slices.Clone(f.Devices)
	for i, id := range f.Devices {
		if id == "" {
			return fmt.Errorf("device: found %q, want an id (3b:00.0-p1) or an address of a card (0000:3b:00.0)", id)
		}
		f.Devices[i] = strings.TrimPrefix(strings.ToLower(id), "0000:")
	}
	return nil
}

// matches reports whether a pattern matches an event's name. A malformed pattern doesn't match anything.
func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// wantsEvent reports whether the filter selects a line based on its event and level.
func (f *Filter) wantsEvent(l *line) bool {
	if f.Level != nil && l.level < *f.Level {
		return false
	}
	if len(f.Events) > 0 {
		return slices.ContainsFunc(f.Events, func(pattern string) bool { return matches(pattern, l.event) })
	}
	if f.Level != nil || l.level >= zapcore.WarnLevel {
		return true
	}
	switch l.event {
	case logevent.HTTPServed.String, logevent.SocketRemoved.String, logevent.LibraryLog.String: // not about devices
		return false
	}
	return l.level == zapcore.InfoLevel
}

// wantsLine reports whether the filter selects a line based on its devices. All filters select lines about a daemon
// starting or exiting, and lines about a stream's first list, because these don't name any devices.
func (f *Filter) wantsLine(l *line) bool {
	if len(f.Devices) == 0 {
		return true
	}
	devices := l.texts("devices")
	switch l.event {
	case logevent.DaemonStarted.String, logevent.DaemonStopped.String, logevent.DaemonFailed.String, logevent.ModeChanged.String:
		return true
	case logevent.ListSent.String, logevent.SlicesPublished.String:
		if len(devices) == 0 {
			return true
		}
	}
	if id := l.text("device"); id != "" {
		return f.wantsDevice(id)
	}
	if pci := l.text("pci"); pci != "" {
		return slices.ContainsFunc(f.Devices, func(device string) bool {
			card, _, _ := strings.Cut(device, "-p")
			return card == strings.TrimPrefix(pci, "0000:")
		})
	}
	// A list that has been abbreviated may contain the device among the omitted ones.
	return slices.ContainsFunc(devices, func(id string) bool { return isMore(id) || f.wantsDevice(id) })
}

// wantsDevice reports whether the filter selects the device with this id. The id of a card's first port is the same as
// the card's address, so it selects all of the card's ports. To select only the first port, append -p0.
func (f *Filter) wantsDevice(id string) bool {
	return len(f.Devices) == 0 || slices.ContainsFunc(f.Devices, func(device string) bool {
		first, alone := strings.CutSuffix(device, "-p0")
		return id == first || !alone && strings.HasPrefix(id, device+"-p")
	})
}

// Bound returns one end of a time range, given the time zone of the log.
type Bound func(zone *time.Location) time.Time

// ParseBound parses an RFC 3339 time, a duration before now (90m), a date with or without a time, or a time of day,
// which means the most recent such time. A time without a time zone is taken to be in the log's time zone, so that
// users can paste a time from a line.
func ParseBound(s string, now time.Time) (Bound, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return func(*time.Location) time.Time { return t }, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return func(*time.Location) time.Time { return now.Add(-d) }, nil
	}
	for _, layout := range []string{
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", "15:04:05", "15:04",
	} {
		if _, err := time.Parse(layout, s); err == nil {
			return func(zone *time.Location) time.Time { return latest(layout, s, zone, now) }, nil
		}
	}
	return nil, fmt.Errorf("found %q, want a time (03:12, 2026-11-21T03:12, 2026-11-21T03:12:00Z)"+
		" or a duration before now (90m)", s)
}

// latest parses a time in a time zone. For a layout without a date, it returns the most recent such time before now.
func latest(layout, s string, zone *time.Location, now time.Time) time.Time {
	t, _ := time.ParseInLocation(layout, s, zone)
	if strings.HasPrefix(layout, "2006") {
		return t
	}
	year, month, day := now.In(zone).Date()
	t = time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone)
	if t.After(now) {
		t = t.AddDate(0, 0, -1)
	}
	return t
}

// place returns -1 if t is before Since, 1 if t is at or after Until, and 0 if t is in the time range.
func (f *Filter) place(t time.Time) int {
	switch {
	case f.Until != nil && !t.Before(f.Until(t.Location())):
		return 1
	case f.Since != nil && t.Before(f.Since(t.Location())):
		return -1
	}
	return 0
}
