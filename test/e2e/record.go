package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// record contains every state that an API server watch has reported for objects of one kind, with timestamps. This
// includes states that were too short-lived for polling to see.
type record[T metav1.Object] struct {
	mu      sync.Mutex
	states  []moment[T]
	changed chan struct{} // closed when states or failed changes
	failed  error
}

// moment contains the objects as they were after an event, keyed by name.
type moment[T any] struct {
	at      time.Time
	objects map[string]T
}

// follow opens a watch, and records the states of its objects until the story ends.
func follow[T metav1.Object](s *scene, open func(context.Context, metav1.ListOptions) (watch.Interface, error), o metav1.ListOptions) *record[T] {
	ctx, stop := context.WithCancel(s.ctx)
	w, err := open(ctx, o)
	if err != nil {
		stop()
		s.check(err)
	}
	r := &record[T]{changed: make(chan struct{})}
	var task sync.WaitGroup
	task.Go(func() { r.add(w.ResultChan()) })
	s.cleanups = append(s.cleanups, func() {
		stop()
		w.Stop()
		task.Wait()
	})
	return r
}

// add adds a state for each event until the channel is closed.
func (r *record[T]) add(events <-chan watch.Event) {
	objects := map[string]T{}
	for event := range events {
		object, ok := event.Object.(T)
		if !ok {
			r.change(func() { r.failed = fmt.Errorf("watch: found %s %v, want an object", event.Type, event.Object) })
			continue
		}
		objects = maps.Clone(objects)
		objects[object.GetName()] = object
		if event.Type == watch.Deleted {
			delete(objects, object.GetName())
		}
		r.change(func() { r.states = append(r.states, moment[T]{time.Now(), objects}) })
	}
	r.change(func() { r.failed = errors.Join(r.failed, errors.New("watch: ended")) })
}

func (r *record[T]) change(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

// now returns the states so far, a channel that is closed when there are more, and the error that ended the watch.
func (r *record[T]) now() ([]moment[T], <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states, r.changed, r.failed
}

// until returns the time of the first state that satisfies want, and waits for such a state if necessary. It starts
// with the state at the time since; if that state satisfies want, it returns since. name describes the state in errors.
func (r *record[T]) until(s *scene, name string, since time.Time, want func(map[string]T) bool) time.Time {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		states, changed, err := r.now()
		for _, st := range from(states, since) {
			if want(st.objects) {
				return st.at
			}
		}
		s.check(err)
		s.check(s.Ended())
		select {
		case <-changed:
		case <-limit.C:
			s.failf("%s: not found within %v in %d states", name, patience, len(from(states, since)))
		case <-s.ctx.Done():
			s.check(context.Cause(s.ctx))
		}
	}
}

// since returns the state at time t and all later states.
func (r *record[T]) since(s *scene, t time.Time) []moment[T] {
	states, _, err := r.now()
	s.check(err)
	return from(states, t)
}

// from returns the state at time t, if there is one, and all later states.
func from[T any](states []moment[T], t time.Time) []moment[T] {
	var chosen []moment[T]
	for _, st := range states {
		switch {
		case st.at.After(t):
			chosen = append(chosen, st)
		default:
			chosen = []moment[T]{{t, st.objects}}
		}
	}
	return chosen
}
