package kubeevents

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

const (
	pace   = 10 * time.Second // minimum time between writes of the same Event
	giveUp = 5 * time.Minute  // how long after its last occurrence an Event is retried
)

// key identifies an Event.
type key struct {
	object apiserver.Object // without UID if it is a pod
	reason Reason
	device string
}

// record is one Event.
type record struct {
	key

	// Guarded by the lock.
	warning     bool
	message     string
	first, last time.Time
	count       int
	pending     bool      // the Event must be written
	due         time.Time // earliest time of the next write
	failed      bool      // the last attempt to write the Event failed

	// Used only by Run.
	name    string // in the API server; "" until the first attempt to create it
	uid     string // the object's UID
	written int    // the count in the API server
}

// Run writes the Events until ctx is done, and then returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	w := r.cfg.Client.Writer(ctx, r.cfg.Node)
	defer w.Close()
	for {
		e, wait := r.next(time.Now())
		poke := r.poke
		if e != nil {
			err := r.write(w, e)
			if ctx.Err() != nil {
				return nil
			}
			wait, poke = r.wrote(w, e, err), nil // after a failure, don't try the next Event immediately
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		case <-poke:
		}
	}
}

// next returns the next Event to write or, if none is due, nil and how long to wait. It gives up on Events that last
// occurred more than giveUp ago.
func (r *Recorder) next(now time.Time) (*record, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := time.Duration(math.MaxInt64)
	for _, e := range r.events {
		switch {
		case !e.pending:
		case now.Sub(e.last) >= giveUp:
			r.about(e).Debug("event given up", logevent.EventFailed)
			r.cfg.Count(Failed)
			e.pending, e.failed = false, false
		case !e.due.After(now):
			return e, 0
		default:
			wait = min(wait, e.due.Sub(now))
		}
	}
	return nil, wait
}

// write updates an Event in the API server, or creates it if it doesn't exist or has expired. If the first request to
// create the Event failed, write still tries to update it, because the API server may have processed that request
// anyway. If the pod has been replaced by a new one with the same name, write creates a new Event.
func (r *Recorder) write(w *apiserver.Writer, e *record) error {
	if e.object.Kind == "Pod" {
		uid, err := w.PodUID(e.object.Namespace, e.object.Name)
		if errors.Is(err, apiserver.ErrForbidden) {
			r.anonymous.Do(func() {
				r.log.Warn("events on pods have no uid, so kubectl describe does not show them", logevent.EventsAnonymous, logevent.Err(err))
			})
			err = nil
		}
		if err != nil {
			return err
		}
		if uid != e.uid && e.name != "" {
			r.mu.Lock()
			e.first, e.count = e.last, e.count-e.written
			r.mu.Unlock()
			e.name, e.written = "", 0
		}
		e.uid = uid
	}
	if e.name == "" {
		e.name = r.nameFor(e.object.Name)
	} else if err := r.send(e, w.Grow); !errors.Is(err, apiserver.ErrNotFound) {
		return err
	}
	err := r.send(e, w.Create)
	if errors.Is(err, apiserver.ErrExists) {
		e.name = "" // another client is using the name
	}
	return err
}

// send passes the Event's newest content to request, which sends it to the API server.
func (r *Recorder) send(e *record, request func(apiserver.Event) error) error {
	r.mu.Lock()
	whole := apiserver.Event{
		Name: e.name, Object: e.object, Host: r.cfg.Node, Warning: e.warning, Reason: string(e.reason), Message: e.message,
		First: e.first, Last: e.last, Count: e.count,
	}
	r.mu.Unlock()
	whole.Object.UID = e.uid
	err := request(whole)
	if err == nil {
		e.written = whole.Count
	}
	return err
}

// nameFor returns a name for an Event in the same format as client-go: the object's name and the time in nanoseconds.
func (r *Recorder) nameFor(object string) string {
	r.lastName = max(r.lastName+1, time.Now().UnixNano())
	suffix := "." + strconv.FormatInt(r.lastName, 16)
	return strings.TrimRight(object[:min(len(object), 253-len(suffix))], "-.") + suffix
}

// wrote records the result of trying to write an Event. It returns the time until the next attempt.
func (r *Recorder) wrote(w *apiserver.Writer, e *record, err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = slices.DeleteFunc(r.events, func(o *record) bool { return o == e })
	ended := errors.Is(err, apiserver.ErrNotFound) || errors.Is(err, apiserver.ErrEnding)
	switch {
	case err == nil:
		r.cfg.Count(Sent)
		r.about(e).Debug("event written", logevent.EventRecorded, logevent.Count(e.written))
		e.pending = e.count > e.written // the Event has occurred again in the meantime
		e.due, e.failed = time.Now().Add(pace), false
		r.events = append(r.events, e)
		w.Passed(!slices.ContainsFunc(r.events, func(e *record) bool { return e.failed }))
	case e.object.Kind == "Pod" && ended: // the pod or its namespace is gone
		r.cfg.Count(Dropped)
		r.about(e).Debug("pod of an event has ended", logevent.EventFailed, logevent.Err(err))
	case errors.Is(err, apiserver.ErrRefused):
		r.cfg.Count(Failed)
		r.about(e).Warn("event refused", logevent.EventFailed, logevent.Err(err))
	default:
		e.due, e.failed = time.Time{}, true
		r.events = append(r.events, e) // after the others
		return w.Failed(err)
	}
	return 0
}

// about returns a logger for lines about an Event.
func (r *Recorder) about(e *record) *zap.Logger {
	object := strings.Replace(e.object.Kind+"/"+e.object.Namespace+"/"+e.object.Name, "//", "/", 1)
	return r.log.With(logevent.Reason(string(e.reason)), logevent.Device(e.device), logevent.Object(object))
}
