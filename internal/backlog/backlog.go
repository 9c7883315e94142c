package backlog

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

const (
	// size is the maximum total length of the lines in the queue, in bytes. That is enough for about 3000 lines.
	size = 1 << 20
	// flushTimeout limits how long an exiting process waits for a log reader that has stalled. A pipe buffers 64 KiB,
	// so there is no wait as long as the reader keeps reading.
	flushTimeout = 500 * time.Millisecond
)

// Core is a zapcore.Core whose lines are written in the background.
type Core struct {
	zapcore.LevelEnabler
	encoder zapcore.Encoder
	queue   *queue
}

// New returns a core that writes to w in a new goroutine, which runs until [Core.Close] is called. For each dropped
// line, the core calls dropped, which must not block, with the line's level.
func New(encoder zapcore.Encoder, w io.Writer, level zapcore.LevelEnabler, dropped func(zapcore.Level)) *Core {
	return newCore(encoder, w, level, dropped, size)
}

func newCore(
	encoder zapcore.Encoder, w io.Writer, level zapcore.LevelEnabler, dropped func(zapcore.Level), size int,
) *Core {
	q := &queue{size: size, w: w, encoder: encoder.Clone(), dropped: dropped}
	q.more.L = &q.mu
	go q.run()
	return &Core{LevelEnabler: level, encoder: encoder, queue: q}
}

// Level returns the lowest enabled level.
func (c *Core) Level() zapcore.Level { return zapcore.LevelOf(c.LevelEnabler) }

// With returns a core that shares c's queue and adds fields to each of its lines.
func (c *Core) With(fields []zapcore.Field) zapcore.Core {
	encoder := c.encoder.Clone()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	return &Core{LevelEnabler: c.LevelEnabler, encoder: encoder, queue: c.queue}
}

// Check implements [zapcore.Core].
func (c *Core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write encodes a line and adds it to the queue, or drops it if the queue is full.
func (c *Core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	text, err := c.encoder.EncodeEntry(entry, fields)
	if err != nil {
		return err
	}
	c.queue.add(line{level: min(entry.Level, zapcore.ErrorLevel), text: bytes.Clone(text.Bytes())})
	text.Free()
	if entry.Level > zapcore.ErrorLevel {
		return c.Sync() // zap is about to exit the process
	}
	return nil
}

// Sync waits up to [flushTimeout] for all lines logged so far to be written.
func (c *Core) Sync() error {
	c.queue.flush(false)
	return nil
}

// Close waits up to [flushTimeout] for all lines logged so far to be written, and ends the goroutine that writes them.
// Lines logged after that are dropped.
func (c *Core) Close() { c.queue.flush(true) }

// FlushOnPanic is meant to be deferred by a goroutine. If the goroutine panics, FlushOnPanic writes all lines logged so
// far and panics again with the same value. It must be deferred directly, not called by a deferred function.
func FlushOnPanic(log *zap.Logger) {
	if v := recover(); v != nil {
		_ = log.Sync() // an error can't be reported
		panic(v)
	}
}

// queue contains the lines that haven't been written yet.
type queue struct {
	size    int
	w       io.Writer
	encoder zapcore.Encoder // doesn't contain fields
	dropped func(zapcore.Level)

	mu      sync.Mutex
	more    sync.Cond // signaled when a line is added or closed is set
	waiting []line
	bytes   int // total length of the waiting lines
	taken   int // total length of the lines that run is writing
	closed  bool

	// The remaining fields are only used by run's goroutine, so they don't need mu.
	lost gap   // lines whose loss hasn't been reported yet
	err  error // from the last failed write since the last report; nil if there was none
	torn bool  // the last line was only partly written
}

// line is a log line, a gap where lines were dropped, or a request to flush.
type line struct {
	level   zapcore.Level
	text    []byte
	dropped *gap          // nil if this isn't a gap
	written chan struct{} // closed when all earlier lines have been written
}

// add adds a line to the queue or, if it doesn't fit, drops it. Once a line has been dropped, add drops all further
// lines until run takes the waiting ones.
func (q *queue) add(l line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.dropped(l.level)
		return
	}
	last := len(q.waiting) - 1
	full := last >= 0 && q.waiting[last].dropped != nil
	if !full && q.taken+q.bytes+len(l.text) <= q.size {
		q.put(l)
		return
	}
	if !full {
		q.put(line{dropped: new(gap)})
		last++
	}
	q.waiting[last].dropped.add(l.level)
	q.dropped(l.level)
}

// put adds a line to the waiting ones. The caller must hold mu.
func (q *queue) put(l line) {
	q.waiting = append(q.waiting, l)
	q.bytes += len(l.text)
	q.more.Signal()
}

// flush waits up to flushTimeout for all lines logged so far to be written. If last is true, it closes the queue.
func (q *queue) flush(last bool) {
	written := make(chan struct{})
	q.mu.Lock()
	if q.closed {
		close(written)
	} else {
		q.put(line{written: written})
	}
	q.closed = q.closed || last
	q.mu.Unlock()
	select {
	case <-written:
	case <-time.After(flushTimeout):
	}
}

// run writes the queued lines until the queue is closed and empty.
func (q *queue) run() {
	for {
		todo := q.take()
		if len(todo) == 0 {
			return
		}
		for _, l := range todo {
			switch {
			case l.dropped != nil:
				q.lost.merge(*l.dropped)
			case l.written != nil:
				q.report()
				close(l.written)
			case !q.report() || !q.write(l.text):
				q.lost.add(l.level)
				q.dropped(l.level)
			}
		}
		q.report()
	}
}

// take waits until there are lines in the queue, and removes and returns them. If the queue is closed and empty, it
// returns nil.
func (q *queue) take() []line {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
	for len(q.waiting) == 0 && !q.closed {
		q.more.Wait()
		// On a single processor, let the goroutine that sends a list to the kubelet run before the lines about that
		// list are written. This cuts the median time until a list is sent by 6%.
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	todo := q.waiting
	q.waiting, q.bytes, q.taken = nil, 0, q.bytes
	return todo
}

// report writes a log.dropped line if lines have been lost since the last report. It returns false if that line
// couldn't be written.
func (q *queue) report() bool {
	if !q.lost.open() {
		return true
	}
	now, n := time.Now(), q.lost.counts
	entry := zapcore.Entry{Level: zapcore.WarnLevel, Time: now, Message: "log lines dropped"}
	text, err := q.encoder.EncodeEntry(entry, []zapcore.Field{
		logevent.LogDropped, logevent.Count(n[0] + n[1] + n[2] + n[3]),
		logevent.DroppedDebug(n[0]), logevent.DroppedInfo(n[1]), logevent.DroppedWarn(n[2]), logevent.DroppedError(n[3]),
		logevent.Lasted(now.Sub(q.lost.since)), logevent.Err(q.err),
	})
	if err != nil {
		return false
	}
	defer text.Free()
	if !q.write(text.Bytes()) {
		return false
	}
	q.lost, q.err = gap{}, nil
	return true
}

// write writes a line and reports whether it succeeded. If the previous line was only partly written, because the disk
// was full, it starts a new line first.
func (q *queue) write(text []byte) bool {
	if q.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := q.w.Write(text)
	if err != nil {
		q.err, q.torn = err, q.torn || n > 0
		return false
	}
	q.torn = false
	return true
}

// gap counts lines that were dropped.
type gap struct {
	since  time.Time // when the first line was dropped; zero if none has been
	counts [4]int    // debug, info, warn, error
}

func (g *gap) open() bool { return !g.since.IsZero() }

func (g *gap) add(level zapcore.Level) {
	if !g.open() {
		g.since = time.Now()
	}
	g.counts[level-zapcore.DebugLevel]++
}

// merge adds the counts of a later gap.
func (g *gap) merge(later gap) {
	if !g.open() {
		g.since = later.since
	}
	for i, n := range later.counts {
		g.counts[i] += n
	}
}
