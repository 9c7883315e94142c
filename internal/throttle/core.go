package throttle

import (
	"strings"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// Core passes lines on, but for those of which there are too many.
type Core struct {
	zapcore.Core
	about   subject // what the fields of With say
	limiter *limiter
}

// New puts a core in front of another one. [Core.Close] must be called in the end.
func New(to zapcore.Core) *Core {
	return &Core{Core: to, limiter: &limiter{to: to, windows: map[key]*window{}}}
}

// Close says what was left out until now. What is logged later is passed on as it is.
func (c *Core) Close() { c.limiter.close() }

// With returns a core whose lines have these fields, and that counts with this one.
func (c *Core) With(fields []zapcore.Field) zapcore.Core {
	return &Core{Core: c.Core.With(fields), about: c.about.with(fields), limiter: c.limiter}
}

// Check takes the lines that the core behind would take.
func (c *Core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write passes a line on, or counts it.
func (c *Core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	about := c.about.with(fields)
	if about.spared(entry.Level) || c.limiter.pass(about.key, entry) {
		return c.Core.Write(entry, fields)
	}
	return nil
}

// key is what is counted together.
type key struct{ event, device, pci, resource, source string }

// subject is what a line speaks of.
type subject struct {
	key
	devices bool // it names some
}

// with is the subject of a line that has these fields, too.
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

// spared says whether a line is written however many there are. What tells a device's
// story is: each such line has its cause in the node or at the kubelet, and these are
// paced. Allocations that are refused are not: who makes pods anew, which the kubelet
// fails at once, floods us with them.
func (s subject) spared(level zapcore.Level) bool {
	switch {
	case s.event == event.LibraryLog.String:
		return false
	case level < zapcore.InfoLevel, strings.HasPrefix(s.event, "device."), strings.HasPrefix(s.event, "daemon."):
		return true
	case s.event == event.AllocateServed.String, s.event == event.ListSent.String:
		return s.devices
	}
	return false
}
