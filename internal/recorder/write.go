package recorder

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/event"
)

// Run writes what there is to write, until ctx ends; then it returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	w := r.cfg.Client.Writer(ctx, r.cfg.Node)
	defer w.Close()
	defer r.sayRest()
	for ctx.Err() == nil {
		e, now, wait := r.next(time.Now())
		var timer <-chan time.Time
		poke := r.poke
		switch {
		case e != nil:
			written, err := r.write(w, now)
			if ctx.Err() != nil {
				return nil
			}
			wait = r.wrote(w, e, now, written, err)
			if wait == 0 {
				continue
			}
			timer, poke = time.After(wait), nil // nothing else will fare better before
		case wait > 0:
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-timer:
		case <-poke:
		}
	}
	return nil
}

// sayRest says at the end what was left out and not said yet.
func (r *Recorder) sayRest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sayDropped(r.lost.due)
}

// write writes an Event, which it returns as it is then at the API server: grown,
// or made anew where it has expired or another pod has its name by now.
func (r *Recorder) write(w *apiserver.Writer, e record) (record, error) {
	if e.kind == "Pod" {
		uid, err := r.uidOf(w, e)
		if err != nil {
			return e, err
		}
		if uid != e.object.UID {
			e.event, e.trying = "", ""
		}
		e.object.UID = uid
	}
	if e.event != "" {
		err := w.Grow(e.whole(r.cfg.Node))
		if !errors.Is(err, apiserver.ErrNotFound) {
			return e, err
		}
		e.event = ""
	}
	if e.written > 0 { // what was counted before is in the Event that was
		e.first, e.count = e.last, e.count-e.written
	}
	e.written = 0
	return r.create(w, e)
}

// create makes an Event. An attempt that failed may have arrived all the same: the
// next one has the same name, and finds it then.
func (r *Recorder) create(w *apiserver.Writer, e record) (record, error) {
	var err error
	for range 3 { // a name that is taken by somebody else is no mishap that happens twice
		again := e.trying != ""
		if !again {
			e.trying = r.nameFor(e.object.Name)
		}
		e.event = e.trying
		err = w.Create(e.whole(r.cfg.Node))
		if again && errors.Is(err, apiserver.ErrExists) {
			return e, w.Grow(e.whole(r.cfg.Node))
		}
		if !errors.Is(err, apiserver.ErrExists) {
			return e, err
		}
		e.trying = ""
	}
	return e, err
}

// uidOf asks for the uid of a pod: "" where we have no right to ask.
func (r *Recorder) uidOf(w *apiserver.Writer, e record) (string, error) {
	uid, err := w.PodUID(e.namespace, e.name)
	if !errors.Is(err, apiserver.ErrForbidden) {
		return uid, err
	}
	if !r.anonymous {
		r.anonymous = true
		r.log.Warn("events on pods have no uid, kubectl describe does not show them", event.EventsAnonymous, event.Err(err))
	}
	return "", nil
}

// nameFor makes a name for an Event as client-go does: the object's, and the time
// in nanoseconds.
func (r *Recorder) nameFor(object string) string {
	r.last = max(r.last+1, time.Now().UnixNano())
	suffix := "." + strconv.FormatInt(r.last, 16)
	return strings.TrimRight(object[:min(len(object), 253-len(suffix))], "-.") + suffix
}

// whole is the Event at the API server.
func (e record) whole(node string) apiserver.Event {
	return apiserver.Event{
		Name: e.event, Object: e.object, Host: node, Warning: e.warning, Reason: string(e.reason), Message: e.message,
		First: e.first, Last: e.last, Count: e.count,
	}
}

// wrote notes how the writing of e went: it was now then, and is written at the API
// server. It returns how long to wait before the next.
func (r *Recorder) wrote(w *apiserver.Writer, e *record, now, written record, err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.after = time.Now().Add(pace)
	switch {
	case err == nil:
		r.cfg.Count(Sent)
		r.about(e).Debug("event written", event.EventRecorded, event.Count(written.count))
		e.event, e.object, e.first, e.trying = written.event, written.object, written.first, ""
		e.count -= now.count - written.count
		e.written = written.count
		r.dequeue(e)
		if e.count > e.written { // it happened again meanwhile
			r.enqueue(e, time.Now())
		}
		w.Passed(!r.failing())
		return 0
	case e.kind == "Pod" && (errors.Is(err, apiserver.ErrNotFound) || errors.Is(err, apiserver.ErrEnding)): // or its namespace
		r.cfg.Count(Dropped)
		r.about(e).Debug("event is about what has ended", event.EventFailed, event.Err(err))
		r.forget(e)
		return 0
	case errors.Is(err, apiserver.ErrRefused):
		r.cfg.Count(Failed)
		r.about(e).Warn("event refused", event.EventFailed, event.Err(err))
		r.forget(e)
		return 0
	}
	if written.object != e.object {
		e.event = "" // was about another pod
	}
	e.tried, e.trying, e.object = true, written.trying, written.object
	e.after = time.Time{}
	r.requeue(e)
	return w.Failed(err)
}

// failing says whether something in the queue could not be written so far.
func (r *Recorder) failing() bool {
	for _, e := range r.queue {
		if e.tried {
			return true
		}
	}
	return false
}
