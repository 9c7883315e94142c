package backlog

import (
	"io"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

const (
	// size is the size of the buffer, in bytes: some 3000 lines.
	size = 1 << 20
	// spare is the size of a buffer that is kept for the next lines.
	spare = 64 << 10
	// flushTimeout bounds the time for which the process, when it ends, waits for a reader
	// that has stalled. A pipe takes 64 KiB at once, so a reader that is alive causes no wait.
	flushTimeout = 500 * time.Millisecond
)

// queue is the buffer before the writer.
type queue struct {
	size    int // bounds the lines that wait, in bytes
	dropped func(zapcore.Level)
	writer  writer
	ended   chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	more    sync.Cond // lines are waiting, or closed is set
	waiting lines
	taken   int           // bytes of the lines that the writer has
	gap     gap           // lines dropped since the writer took the lines before them
	idle    chan struct{} // closed when all lines are written; nil: all are
	closed  bool
}

// lines are encoded lines, one after the other.
type lines struct {
	text []byte
	ends []end
}

// end is the end of a line in a text.
type end struct {
	at    int
	level zapcore.Level
}

func newQueue(encoder zapcore.Encoder, w io.Writer, dropped func(zapcore.Level), size int) *queue {
	q := &queue{size: size, dropped: dropped, writer: writer{w: w, encoder: encoder, dropped: dropped}, ended: make(chan struct{})}
	q.more.L = &q.mu
	go q.run()
	return q
}

// add adds a line, or drops it.
func (q *queue) add(level zapcore.Level, line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		q.dropped(level)
		return
	case q.gap.open() || q.taken+len(q.waiting.text)+len(line) > q.size:
		q.gap.add(level)
		q.dropped(level)
	default:
		q.waiting.text = append(q.waiting.text, line...)
		q.waiting.ends = append(q.waiting.ends, end{len(q.waiting.text), level})
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
		q.more.Signal()
	}
}

// run writes the lines until the queue is closed and empty.
func (q *queue) run() {
	defer close(q.ended)
	var done lines
	for {
		todo, after, ok := q.take(done)
		if !ok {
			return
		}
		q.writer.write(todo, after)
		done = todo
	}
}

// take blocks until lines wait, and returns them with the gap after them. The last result
// is false when the queue is closed and empty. take uses done, the lines that it returned
// last, again.
func (q *queue) take(done lines) (lines, gap, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
	if cap(done.text) > spare {
		done = lines{}
	}
	for len(q.waiting.ends) == 0 && !q.gap.open() {
		if q.idle != nil {
			close(q.idle)
			q.idle = nil
		}
		if q.closed {
			return lines{}, gap{}, false
		}
		q.more.Wait()
		// On a single processor, the goroutine that sends a list to the kubelet runs before
		// the lines about that list are written.
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	todo, after := q.waiting, q.gap
	q.waiting, q.gap, q.taken = lines{done.text[:0], done.ends[:0]}, gap{}, len(todo.text)
	return todo, after, true
}

// flush blocks until the lines so far are written, for flushTimeout at most.
func (q *queue) flush() {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle != nil {
		wait(idle)
	}
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	wait(q.ended)
}

func wait(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(flushTimeout):
	}
}
