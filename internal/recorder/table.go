package recorder

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/event"
)

const (
	maxRecords = 512
	pace       = 10 * time.Second // between two writings of one Event
	giveUp     = 5 * time.Minute  // after which an Event that could not be written is old

	burst  = 25              // Events at once, and then
	refill = 5 * time.Second // one in this time; client-go has 25, and one in 5 minutes for each object
)

// key is what one Event is for.
type key struct {
	kind, namespace, name string // of the object
	reason                Reason
	device                string
}

// record is an Event and its state. All of it is guarded by the lock.
type record struct {
	key
	object      apiserver.Object
	warning     bool
	message     string
	first, last time.Time
	count       int

	event   string // its name at the API server; "": not made yet
	trying  string // the name under which it may have been made
	written int    // its count there

	wanted bool      // in the queue
	since  time.Time // when it came there
	after  time.Time // when it may be written
	tried  bool      // it could not be
}

// bucket says whether there are too many.
type bucket struct {
	tokens int
	last   time.Time // a token was added, or the bucket was full
}

// take takes a token, if there is one.
func (b *bucket) take(now time.Time) bool {
	if n := int(now.Sub(b.last) / refill); n > 0 {
		b.tokens, b.last = min(b.tokens+n, burst), b.last.Add(time.Duration(n)*refill)
		if b.tokens == burst {
			b.last = now
		}
	}
	if b.tokens == 0 {
		return false
	}
	if b.tokens == burst {
		b.last = now
	}
	b.tokens--
	return true
}

// note enters that something happened, and queues it unless there is too much.
// What is in the queue already takes up no more room: it is written as it is then.
func (r *Recorder) note(object apiserver.Object, n news, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	k := key{object.Kind, object.Namespace, object.Name, n.reason, n.is.device.ID}
	e := r.table[k]
	if e == nil {
		if !r.makeRoom() {
			r.drop(now)
			return
		}
		e = &record{key: k, object: object, first: now}
		r.table[k] = e
	}
	e.warning, e.message, e.last = n.warning(), message, now
	e.count++
	if e.wanted {
		return
	}
	if !r.bucket.take(now) {
		r.drop(now)
		return
	}
	r.enqueue(e, now)
	r.wake()
}

// makeRoom forgets the oldest record that is not in the queue, where there are too
// many; false: all are.
func (r *Recorder) makeRoom() bool {
	if len(r.table) < maxRecords {
		return true
	}
	var oldest *record
	for _, e := range r.table {
		if !e.wanted && (oldest == nil || e.last.Before(oldest.last)) {
			oldest = e
		}
	}
	if oldest == nil {
		return false
	}
	delete(r.table, oldest.key)
	return true
}

// next is the record whose turn it is, as it is now; nil: none, and how long that
// holds (0: until there is another one).
func (r *Recorder) next(now time.Time) (*record, record, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveUpOld(now)
	wait := r.sayDropped(now)
	for _, e := range r.queue {
		left := e.after.Sub(now)
		if left <= 0 {
			return e, *e, 0
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return nil, record{}, wait
}

// giveUpOld gives up what could not be written for too long.
func (r *Recorder) giveUpOld(now time.Time) {
	for _, e := range slices.Clone(r.queue) {
		if now.Sub(e.since) >= giveUp {
			r.about(e).Debug("event given up", event.EventFailed)
			r.cfg.Count(Failed)
			r.dequeue(e)
		}
	}
}

// path is the object as kubectl names it.
func (k key) path() string {
	if k.namespace == "" {
		return k.kind + "/" + k.name
	}
	return k.kind + "/" + k.namespace + "/" + k.name
}

// about is the log for what is about a record.
func (r *Recorder) about(e *record) *zap.Logger {
	return r.log.With(event.Reason(string(e.reason)), event.Device(e.device), event.Object(e.path()))
}

func (r *Recorder) enqueue(e *record, now time.Time) {
	e.wanted, e.since, e.tried = true, now, false
	r.queue = append(r.queue, e)
}

// forget takes a record out of queue and table.
func (r *Recorder) forget(e *record) {
	r.dequeue(e)
	delete(r.table, e.key)
}

func (r *Recorder) dequeue(e *record) {
	e.wanted = false
	r.queue = slices.DeleteFunc(r.queue, func(o *record) bool { return o == e })
}

// requeue puts a record at the end of the queue.
func (r *Recorder) requeue(e *record) {
	r.dequeue(e)
	e.wanted = true
	r.queue = append(r.queue, e)
}
