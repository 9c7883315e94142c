package throttle

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

const (
	burst  = 20 // maximum number of lines written per subject and period
	period = time.Minute
)

// Core writes lines to another core, except for repeated lines, which it counts.
type Core struct {
	zapcore.Core
	about subject // the subject according to the fields passed to With
	*counter
}

// New returns a core that writes to another core. The caller must call [Core.Close] at the end.
func New(to zapcore.Core) *Core {
	return &Core{Core: to, counter: &counter{to: to, counts: map[subject]*count{}}}
}

// With returns a core that shares c's counts and adds fields to each of its lines.
func (c *Core) With(fields []zapcore.Field) zapcore.Core {
	return &Core{c.Core.With(fields), c.about.with(fields), c.counter}
}

// Check implements [zapcore.Core].
func (c *Core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write writes a line, or only counts it if too many lines about its subject have been written in this period.
func (c *Core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	about := c.about.with(fields)
	if about.exempt(entry.Level) || c.pass(about, entry) {
		return c.Core.Write(entry, fields)
	}
	return nil
}

// subject contains the fields that lines are counted by.
type subject struct {
	event, device, pci, resource, source string
	devices                              bool // the line has the devices field
}

// with returns s, updated with the values of those fields that belong to a subject.
func (s subject) with(fields []zapcore.Field) subject {
	for _, f := range fields {
		switch f.Key {
		case "event":
			s.event = f.String
		case "device":
			s.device = f.String
		case "pci":
			s.pci = f.String
		case "resource":
			s.resource = f.String
		case "source":
			s.source = f.String
		case "devices":
			s.devices = true
		}
	}
	return s
}

// exempt reports whether a line is always written. Lines about devices are exempt, because the events that cause them
// are rate-limited. Rejected allocations aren't, because a pod that is recreated in a loop causes many of them.
func (s subject) exempt(level zapcore.Level) bool {
	switch {
	case s.event == logevent.LibraryLog.String:
		return false
	case level < zapcore.InfoLevel, strings.HasPrefix(s.event, "device."), strings.HasPrefix(s.event, "daemon."):
		return true
	}
	switch s.event {
	case logevent.AllocateServed.String, logevent.ListSent.String, logevent.SlicesPublished.String, logevent.ClaimPrepared.String, logevent.ClaimUnprepared.String:
		return s.devices
	}
	return false
}

// counter counts lines, for a core and all cores derived from it.
type counter struct {
	to zapcore.Core

	mu         sync.Mutex
	counts     map[subject]*count // for this period
	suppressed []*count           // counts with suppressed lines, ordered by when the first of these was suppressed
	timer      *time.Timer        // ends the period; runs only while counts has entries
	closed     bool
}

// count counts a subject's lines in this period.
type count struct {
	subject
	lines int
	first zapcore.Entry // the first suppressed line, with the highest level of all suppressed lines
}

// pass counts a line and reports whether it must also be written.
func (c *counter) pass(about subject, entry zapcore.Entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return true
	}
	if len(c.counts) == 0 {
		c.timer = time.AfterFunc(period, c.report)
	}
	n := c.counts[about]
	if n == nil {
		n = &count{subject: about}
		c.counts[about] = n
	}
	n.lines++
	if n.lines <= burst {
		return true
	}
	if n.lines == burst+1 {
		n.first = entry
		c.suppressed = append(c.suppressed, n)
	}
	n.first.Level = max(n.first.Level, entry.Level)
	return false
}

// Close logs how many lines have been suppressed so far. From then on, all lines are written.
func (c *counter) Close() {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.report()
}

// report ends the period and writes a log.suppressed line for each subject with suppressed lines. It holds the lock
// while writing, so that Close waits for a report started by the timer.
func (c *counter) report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.suppressed {
		now := time.Now()
		entry := zapcore.Entry{Level: max(zapcore.WarnLevel, n.first.Level), Time: now, LoggerName: n.first.LoggerName, Message: "log lines suppressed"}
		_ = c.to.Write(entry, []zap.Field{ // an error from the log can't be logged
			logevent.LogSuppressed, logevent.Of(n.event), logevent.Count(n.lines - burst), logevent.Lasted(now.Sub(n.first.Time)),
			logevent.Device(n.device), logevent.PCI(n.pci), logevent.Resource(n.resource), logevent.Source(n.source),
		})
	}
	c.counts, c.suppressed = map[subject]*count{}, nil
}
