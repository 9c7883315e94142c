package throttle

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/event"
)

const (
	burst  = 20 // lines of a subject and level in a period
	period = time.Minute
	// maxKeys bounds the subjects that are counted apart. Beyond it, an event has one count.
	maxKeys = 512
)

// Core writes lines to another core, except repeated ones, which it counts.
type Core struct {
	zapcore.Core
	about subject // of the fields of With
	*counter
}

// New returns a core that writes to another one. [Core.Close] must be called at the end.
func New(to zapcore.Core) *Core {
	return &Core{Core: to, counter: &counter{
		to: to, sampler: zapcore.NewSamplerWithOptions(to, period, burst, 0), dropped: map[key]*count{},
	}}
}

// With returns a core whose lines have these fields. It counts together with c.
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

// Write writes a line, or counts it.
func (c *Core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	about := c.about.with(fields)
	if about.exempt(entry.Level) || c.pass(about.key, entry) {
		return c.Core.Write(entry, fields)
	}
	return nil
}

// key has the fields that tell subjects apart.
type key struct{ event, device, pci, resource, source string }

func (k key) String() string {
	return strings.Join([]string{k.event, k.device, k.pci, k.resource, k.source}, "\x00")
}

// subject is the subject of a line.
type subject struct {
	key
	devices bool // the line names devices
}

// with returns the subject of a line that also has these fields.
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

// exempt reports whether a line is always written. Lines about a device are: the node or the
// kubelet causes each of them, and these are paced. Refused allocations are not: pods that
// are created again and again cause them.
func (s subject) exempt(level zapcore.Level) bool {
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

// counter counts the lines that are dropped, for a core and all cores made from it.
type counter struct {
	to      zapcore.Core
	sampler zapcore.Core // decides only

	mu      sync.Mutex
	dropped map[key]*count
	timer   *time.Timer // nil while dropped is empty
	closed  bool
	running sync.WaitGroup // timers that run, or will
}

// count has the dropped lines of a subject since the last report.
type count struct {
	key
	lines  int
	since  time.Time
	level  zapcore.Level // the highest of them
	logger string
}

// pass reports whether a line is to be written. Otherwise it has been counted.
func (c *counter) pass(k key, entry zapcore.Entry) bool {
	// The sampler tells lines apart by message and level.
	if c.sampler.Check(zapcore.Entry{Level: entry.Level, Time: entry.Time, Message: k.String()}, nil) != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return true
	}
	n := c.dropped[k]
	if n == nil && len(c.dropped) >= maxKeys {
		k = key{event: k.event}
		n = c.dropped[k]
	}
	if n == nil {
		n = &count{key: k, since: time.Now(), level: entry.Level, logger: entry.LoggerName}
		c.dropped[k] = n
	}
	n.lines++
	n.level = max(n.level, entry.Level)
	if c.timer == nil {
		c.running.Add(1)
		c.timer = time.AfterFunc(period, func() {
			defer c.running.Done()
			c.report(c.take())
		})
	}
	return false
}

// take returns the counts in a fixed order, and begins anew.
func (c *counter) take() []*count {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*count
	for _, n := range c.dropped {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *count) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.String(), b.String()))
	})
	clear(c.dropped)
	c.timer = nil
	return all
}

// Close reports the lines that were dropped until now. Later lines are written.
func (c *counter) Close() {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil && c.timer.Stop() {
		c.running.Done()
	}
	c.mu.Unlock()
	c.running.Wait()
	c.report(c.take())
}

// report writes a line for each count.
func (c *counter) report(all []*count) {
	for _, n := range all {
		now := time.Now()
		entry := zapcore.Entry{Level: max(zapcore.WarnLevel, n.level), Time: now, LoggerName: n.logger, Message: "lines left out"}
		_ = c.to.Write(entry, []zap.Field{ // an error of the log cannot be logged
			event.LogSuppressed, event.Of(n.event), event.Count(n.lines), event.Lasted(now.Sub(n.since)),
			event.Device(n.device), event.PCI(n.pci), event.Resource(n.resource), event.Source(n.source),
		})
	}
}
