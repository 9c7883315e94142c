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

	reportAfter = 5 * time.Second // from the first Event that is left out: a flood is one line
	reportPace  = time.Minute     // between two such lines
)

// key identifies an Event.
type key struct {
	kind, namespace, name string // of the object
	reason                Reason
	device                string
}

// path returns the object as kubectl names it.
func (k key) path() string {
	if k.namespace == "" {
		return k.kind + "/" + k.name
	}
	return k.kind + "/" + k.namespace + "/" + k.name
}

// record is one Event. All of it is guarded by the lock.
type record struct {
	key
	object      apiserver.Object
	warning     bool
	message     string
	first, last time.Time
	count       int

	event   string // its name at the API server; "": no attempt yet
	made    bool   // it exists there; if false, it may still exist if it has a name
	written int    // its count there

	queued time.Time // when it entered the queue; zero: it is not in the queue
	after  time.Time // when it may be written
	failed bool      // the last attempt to write it failed
}

// limit is a token bucket.
type limit struct{ full time.Time } // when all tokens are back

// take takes a token, and reports whether there was one.
func (l *limit) take(now time.Time) bool {
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Sub(now) > (burst-1)*refill {
		return false
	}
	l.full = l.full.Add(refill)
	return true
}

// note counts an Event, and queues it unless there are too many. An Event that is already in
// the queue is updated.
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
	switch {
	case !e.queued.IsZero():
	case r.limit.take(now):
		r.enqueue(e, now)
		r.wake()
	default:
		r.drop(now)
	}
}

// makeRoom deletes the oldest record that is not in the queue, if there are too many. It
// reports whether there is room for another one.
func (r *Recorder) makeRoom() bool {
	if len(r.table) < maxRecords {
		return true
	}
	var oldest *record
	for _, e := range r.table {
		if e.queued.IsZero() && (oldest == nil || e.last.Before(oldest.last)) {
			oldest = e
		}
	}
	if oldest == nil {
		return false
	}
	delete(r.table, oldest.key)
	return true
}

func (r *Recorder) enqueue(e *record, now time.Time) {
	e.queued, e.failed = now, false
	r.queue = append(r.queue, e)
}

func (r *Recorder) dequeue(e *record) {
	e.queued = time.Time{}
	r.queue = slices.DeleteFunc(r.queue, func(o *record) bool { return o == e })
}

// next returns the next record to be written, and a copy of it. If there is none, it returns
// nil and the time until there is one; 0: none is waiting. Records that have waited for too
// long are given up.
func (r *Recorder) next(now time.Time) (*record, record, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Clone(r.queue) {
		if now.Sub(e.queued) >= giveUp {
			r.about(e).Debug("event given up", event.EventFailed)
			r.cfg.Count(Failed)
			r.dequeue(e)
		}
	}
	wait := r.reportDropped(now)
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

// drop counts an Event that is left out.
func (r *Recorder) drop(now time.Time) {
	r.cfg.Count(Dropped)
	if after := now.Add(reportAfter); r.dropped == 0 && r.reportAt.Before(after) {
		r.reportAt = after
	}
	r.dropped++
	r.wake()
}

// reportDropped logs the number of Events that were left out, if that is due. Otherwise it
// returns the time until it is; 0: none was left out.
func (r *Recorder) reportDropped(now time.Time) time.Duration {
	if r.dropped == 0 {
		return 0
	}
	if left := r.reportAt.Sub(now); left > 0 {
		return left
	}
	r.log.Warn("events left out, there are too many", event.EventsDropped, event.Count(r.dropped))
	r.dropped, r.reportAt = 0, now.Add(reportPace)
	return 0
}

// about returns the log for lines about a record.
func (r *Recorder) about(e *record) *zap.Logger {
	return r.log.With(event.Reason(string(e.reason)), event.Device(e.device), event.Object(e.path()))
}
