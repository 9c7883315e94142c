package recorder

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/event"
)

// Run writes the Events until ctx ends; then it returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	w := r.cfg.Client.Writer(ctx, r.cfg.Node)
	defer w.Close()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reportDropped(r.reportAt)
	}()
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
			timer, poke = time.After(wait), nil // the next Event would fail for the same reason
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

// write writes an Event, and returns it as the API server has it then. It updates the Event, or
// creates another one if the Event has expired or another pod has the name now. An attempt to
// create it that failed may still have arrived, so the next attempt uses the same name.
func (r *Recorder) write(w *apiserver.Writer, e record) (record, error) {
	if e.kind == "Pod" {
		uid, err := r.uidOf(w, e)
		if err != nil {
			return e, err
		}
		if uid != e.object.UID {
			e.event, e.made = "", false
		}
		e.object.UID = uid
	}
	if e.made {
		err := w.Grow(e.whole(r.cfg.Node))
		if !errors.Is(err, apiserver.ErrNotFound) {
			return e, err
		}
		e.event, e.made = "", false
	}
	if e.written > 0 { // the old Event has these
		e.first, e.count, e.written = e.last, e.count-e.written, 0
	}
	var err error
	for range 3 { // another client may have the name; twice is not likely
		again := e.event != ""
		if !again {
			e.event = r.nameFor(e.object.Name)
		}
		err = w.Create(e.whole(r.cfg.Node))
		switch {
		case !errors.Is(err, apiserver.ErrExists):
			e.made = err == nil
			return e, err
		case again:
			e.made = true
			return e, w.Grow(e.whole(r.cfg.Node))
		}
		e.event = ""
	}
	return e, err
}

// uidOf returns the uid of a pod from the API server, or "" if that is forbidden.
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

// nameFor returns a name for an Event as client-go makes it: the object's name and the
// time in nanoseconds.
func (r *Recorder) nameFor(object string) string {
	r.lastName = max(r.lastName+1, time.Now().UnixNano())
	suffix := "." + strconv.FormatInt(r.lastName, 16)
	return strings.TrimRight(object[:min(len(object), 253-len(suffix))], "-.") + suffix
}

// whole returns the Event in the form of the API server.
func (e record) whole(node string) apiserver.Event {
	return apiserver.Event{
		Name: e.event, Object: e.object, Host: node, Warning: e.warning, Reason: string(e.reason), Message: e.message,
		First: e.first, Last: e.last, Count: e.count,
	}
}

// wrote notes the result of writing e, which was now before and is written at the API
// server. It returns how long to wait before the next attempt.
func (r *Recorder) wrote(w *apiserver.Writer, e *record, now, written record, err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.event, e.made, e.object = written.event, written.made, written.object
	switch {
	case err == nil:
		r.cfg.Count(Sent)
		r.about(e).Debug("event written", event.EventRecorded, event.Count(written.count))
		e.first, e.written, e.after = written.first, written.count, time.Now().Add(pace)
		e.count -= now.count - written.count
		r.dequeue(e)
		if e.count > e.written { // the count has grown meanwhile
			r.enqueue(e, time.Now())
		}
		w.Passed(!slices.ContainsFunc(r.queue, func(e *record) bool { return e.failed }))
		return 0
	case e.kind == "Pod" && (errors.Is(err, apiserver.ErrNotFound) || errors.Is(err, apiserver.ErrEnding)): // or its namespace
		r.cfg.Count(Dropped)
		r.about(e).Debug("event is about what has ended", event.EventFailed, event.Err(err))
	case errors.Is(err, apiserver.ErrRefused):
		r.cfg.Count(Failed)
		r.about(e).Warn("event refused", event.EventFailed, event.Err(err))
	default: // after the others
		queued := e.queued
		r.dequeue(e)
		r.queue = append(r.queue, e)
		e.queued, e.after, e.failed = queued, time.Time{}, true
		return w.Failed(err)
	}
	r.dequeue(e)
	delete(r.table, e.key)
	return 0
}
