package simkubelet

import (
	"context"
	"errors"
	"sync"
)

// errStopped is the error from await if the stand-in has stopped.
var errStopped = errors.New("the kubelet has stopped")

// state is a mutex, and a channel that tells waiting goroutines about changes.
type state struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced on each change
}

func newState() state { return state{changed: make(chan struct{})} }

// change calls f with mu held, and then notifies waiting goroutines.
func (s *state) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until met returns true, or until ctx or life (the stand-in's context) is done. It calls met with mu held.
func (s *state) await(ctx, life context.Context, met func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := met(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-life.Done():
			return errStopped
		}
	}
}
