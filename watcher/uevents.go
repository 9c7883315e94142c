package watcher

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/pulse"
)

// uevents is the source of kernel uevents.
type uevents struct {
	filter    filter
	log       *zap.Logger
	metrics   *metrics.Metrics
	conn      *conn // nil while closed
	forged    limiter
	malformed limiter
}

// quiet is the minimum time between warnings of the same kind. Without it, other processes could trigger these warnings
// as often as they like.
const quiet = time.Minute

// limiter counts events and decides which of them to log.
type limiter struct {
	last time.Time // when an event was last logged
	held int       // number of events since then
}

// count counts an event. It returns the number of events to log now, or 0 if nothing should be logged.
func (l *limiter) count(now time.Time) int {
	l.held++
	if !l.last.IsZero() && now.Sub(l.last) < quiet {
		return 0
	}
	n := l.held
	l.last, l.held = now, 0
	return n
}

func (u *uevents) open() ([]zap.Field, error) {
	if foreign() {
		return nil, errForeign
	}
	if masked() {
		return nil, errMasked
	}
	c, err := dial()
	if err != nil {
		return nil, err
	}
	u.conn = c
	return []zap.Field{logevent.Bytes(c.received)}, nil
}

func (u *uevents) close() {
	if u.conn != nil {
		_ = u.conn.close() // nothing was written, so the error doesn't matter
		u.conn = nil
	}
}

func (u *uevents) listen(ctx context.Context, p *pulse.Pulse, hint func(Hint)) error {
	stop := context.AfterFunc(ctx, u.conn.interrupt)
	defer stop()
	for {
		p.Rest()
		m, err := u.conn.receive()
		at := time.Now()
		p.WorkSince(at)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			err = u.overflowed(at, hint)
		case err == nil:
			u.take(m, at, hint)
		}
		if err != nil {
			return err
		}
	}
}

// overflowed empties the queue and sends a hint for everything. The kernel drops messages until the queue is empty, so
// anything that was read from sysfs before that may be out of date.
func (u *uevents) overflowed(at time.Time, hint func(Hint)) error {
	n, err := u.conn.drain()
	if err != nil {
		return err
	}
	u.metrics.UEventsLost()
	u.log.Warn("uevents lost", logevent.UEventOverflow, logevent.Count(n))
	hint(Hint{Source: SourceOverflow, At: at})
	if n == 0 {
		// The buffer wasn't full, so the kernel must have run out of memory. The source is reopened after a delay.
		return unix.ENOBUFS
	}
	return nil
}

// take handles one message.
func (u *uevents) take(m message, at time.Time, hint func(Hint)) {
	if !m.sender.kernel() {
		u.metrics.UEventForged()
		if n := u.forged.count(at); n > 0 {
			u.log.Warn("forged uevent dropped", logevent.UEventForged, logevent.Count(n), logevent.PID(int(m.sender.pid)),
				logevent.UID(int(m.sender.uid)), logevent.Port(m.sender.port))
		}
		return
	}
	ev, err := parse(m.data)
	if err == nil {
		err = ev.check()
	}
	if m.truncated {
		err = errTruncated
	}
	if err != nil {
		hint(Hint{Source: SourceMalformed, At: at})
		u.metrics.UEventMalformed()
		if n := u.malformed.count(at); n > 0 {
			u.log.Warn("malformed uevent received", logevent.UEventMalformed, logevent.Count(n), logevent.Bytes(len(m.data)), logevent.Err(err))
		}
		return
	}
	h, ok := u.filter.match(&ev)
	if !ok {
		u.metrics.UEventIgnored()
		return
	}
	h.Source, h.At = SourceUEvent, at
	hint(h)
	u.metrics.UEvent(ev.env.subsystem, ev.action)
	u.debug(&ev, h.Card)
}

func (u *uevents) debug(ev *uevent, card string) {
	line := u.log.Check(zapcore.DebugLevel, "uevent received")
	if line == nil {
		return
	}
	fields := []zap.Field{
		logevent.UEventReceived, logevent.Action(string(ev.action)), logevent.Devpath(string(ev.devpath)),
		logevent.Subsystem(string(ev.env.subsystem)), logevent.Seqnum(ev.seqnum()),
	}
	if card != "" {
		fields = append(fields, logevent.PCI(card))
	}
	if len(ev.env.devname) > 0 {
		fields = append(fields, logevent.Node(string(ev.env.devname)))
	}
	if len(ev.env.errorEvent) > 0 {
		fields = append(fields, logevent.Reason(string(ev.env.errorEvent)))
	}
	line.Write(fields...)
}
