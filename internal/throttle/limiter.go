package throttle

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/event"
)

const (
	burst  = 20          // so many lines of a key are written in its
	during = time.Minute // which begins with the first of them
	// maxKeys bounds what is told apart. Beyond that, an event has one count for all
	// that it speaks of.
	maxKeys = 512
	// sweepEvery bounds how often keys are looked for whose minute is over.
	sweepEvery = time.Second
)

// limiter counts for a core and for all that was made from it.
type limiter struct {
	to zapcore.Core // hears what was left out

	mu      sync.Mutex
	windows map[key]*window
	swept   time.Time
	timer   *time.Timer // for the first window's end of which lines were left out; nil: there is none
	due     time.Time
	closed  bool
	fired   sync.WaitGroup // timers that run, or will
}

// window is the minute of a key.
type window struct {
	key
	ends    time.Time
	written int
	left    int           // out
	since   time.Time     // the first one was
	level   zapcore.Level // the gravest of them
	logger  string
}

// pass says whether a line is to be written; if not, it is counted.
func (l *limiter) pass(k key, entry zapcore.Entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	now := time.Now()
	w := l.window(k, now)
	if w.written < burst {
		w.written++
		return true
	}
	if w.left == 0 {
		w.since, w.level, w.logger = now, entry.Level, entry.LoggerName
		l.await(w.ends, now)
	}
	w.left++
	w.level = max(w.level, entry.Level)
	return false
}

// window is the key's window: the one that it has, or a new one. One whose end has
// come goes on until the timer has said what was left out of it.
func (l *limiter) window(k key, now time.Time) *window {
	w := l.windows[k]
	if w == nil && len(l.windows) >= maxKeys {
		l.sweep(now)
		if len(l.windows) >= maxKeys {
			k = key{event: k.event}
			w = l.windows[k]
		}
	}
	if w == nil || w.left == 0 && !now.Before(w.ends) {
		w = &window{key: k, ends: now.Add(during)}
		l.windows[k] = w
	}
	return w
}

// sweep forgets the keys whose minute is over.
func (l *limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < sweepEvery {
		return
	}
	l.swept = now
	for k, w := range l.windows {
		if w.left == 0 && !now.Before(w.ends) {
			delete(l.windows, k)
		}
	}
}

// await sets the timer, unless it is set for something earlier.
func (l *limiter) await(end, now time.Time) {
	if l.timer != nil {
		if !end.Before(l.due) {
			return
		}
		l.disarm()
	}
	l.due = end
	l.fired.Add(1)
	l.timer = time.AfterFunc(end.Sub(now), func() {
		defer l.fired.Done()
		l.say(l.ended())
	})
}

// disarm stops the timer. One that has fired meanwhile finds nothing to say, or more.
func (l *limiter) disarm() {
	if l.timer != nil && l.timer.Stop() {
		l.fired.Done()
	}
	l.timer = nil
}

// ended takes out the windows that are over and of which lines were left out, and
// sets the timer for the next one.
func (l *limiter) ended() []*window {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.disarm()
	now := time.Now()
	over := l.take(func(w *window) bool { return !now.Before(w.ends) })
	for _, w := range l.windows {
		if w.left > 0 {
			l.await(w.ends, now)
		}
	}
	return over
}

// take takes out the windows of which lines were left out and that are to be taken,
// in the order of their ends.
func (l *limiter) take(wanted func(*window) bool) []*window {
	var taken []*window
	for k, w := range l.windows {
		if w.left > 0 && wanted(w) {
			taken = append(taken, w)
			delete(l.windows, k)
		}
	}
	slices.SortFunc(taken, func(a, b *window) int { return cmp.Or(a.ends.Compare(b.ends), compare(a.key, b.key)) })
	return taken
}

func compare(a, b key) int {
	return cmp.Or(cmp.Compare(a.event, b.event), cmp.Compare(a.device, b.device), cmp.Compare(a.pci, b.pci),
		cmp.Compare(a.resource, b.resource), cmp.Compare(a.source, b.source))
}

func (l *limiter) close() {
	l.mu.Lock()
	l.closed = true
	l.disarm()
	left := l.take(func(*window) bool { return true })
	l.mu.Unlock()
	l.fired.Wait()
	l.say(left)
}

// say says what was left out of windows.
func (l *limiter) say(left []*window) {
	for _, w := range left {
		now := time.Now()
		entry := zapcore.Entry{Level: max(zapcore.WarnLevel, w.level), Time: now, LoggerName: w.logger, Message: "lines left out"}
		_ = l.to.Write(entry, []zap.Field{ // a log that cannot be written cannot be complained about
			event.LogSuppressed, event.Of(w.event), event.Count(w.left), event.Lasted(now.Sub(w.since)),
			event.Device(w.device), event.PCI(w.pci), event.Resource(w.resource), event.Source(w.source),
		})
	}
}
