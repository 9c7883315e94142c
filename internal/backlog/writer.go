package backlog

import (
	"io"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// writer writes lines. The goroutine of the queue owns it.
type writer struct {
	w       io.Writer
	encoder zapcore.Encoder
	dropped func(zapcore.Level)

	lost gap   // dropped, and not reported by a line yet
	err  error // of the last write that failed since the last report; nil: none did
	torn bool  // the last line was written in part
}

// write writes the lines, and reports the gap after them.
func (w *writer) write(todo lines, after gap) {
	begin := 0
	for _, e := range todo.ends {
		if !w.report() || !w.put(todo.text[begin:e.at]) {
			w.lost.add(e.level)
			w.dropped(e.level)
		}
		begin = e.at
	}
	w.lost.merge(after)
	w.report()
}

// report writes the line log.dropped if lines were lost since the last one. It returns
// false if that line could not be written.
func (w *writer) report() bool {
	if !w.lost.open() {
		return true
	}
	now, n := time.Now(), w.lost.counts
	entry := zapcore.Entry{Level: zapcore.WarnLevel, Time: now, Message: "log lines dropped"}
	line, err := w.encoder.EncodeEntry(entry, []zapcore.Field{
		event.LogDropped, event.Count(n[0] + n[1] + n[2] + n[3]),
		event.DroppedDebug(n[0]), event.DroppedInfo(n[1]), event.DroppedWarn(n[2]), event.DroppedError(n[3]),
		event.Lasted(now.Sub(w.lost.since)), event.Err(w.err),
	})
	if err != nil {
		return false
	}
	defer line.Free()
	if !w.put(line.Bytes()) {
		return false
	}
	w.lost, w.err = gap{}, nil
	return true
}

// put writes one line, and reports whether it was written. A full disk may have taken only
// a part of the previous line: then put begins a new line.
func (w *writer) put(line []byte) bool {
	if w.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := w.w.Write(line)
	if err != nil {
		w.err, w.torn = err, w.torn || n > 0
		return false
	}
	w.torn = false
	return true
}

// gap counts lines that were dropped.
type gap struct {
	since  time.Time // the first of them; zero: there are none
	counts [4]int    // debug, info, warn, error
}

func (g *gap) open() bool { return !g.since.IsZero() }

func (g *gap) add(level zapcore.Level) {
	if !g.open() {
		g.since = time.Now()
	}
	g.counts[level-zapcore.DebugLevel]++
}

// merge adds lines that were dropped later.
func (g *gap) merge(later gap) {
	if !g.open() {
		g.since = later.since
	}
	for i, n := range later.counts {
		g.counts[i] += n
	}
}
