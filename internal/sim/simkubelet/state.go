package simkubelet

import (
	"context"
	"errors"
	"sync"
)

// errStopped is what those get who wait for something that cannot come any more.
var errStopped = errors.New("the kubelet has stopped")

// state is a lock, and how those who wait hear of a change of what it guards.
type state struct {
	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, at each change
}

func newState() state { return state{changed: make(chan struct{})} }

// change runs f, which changes what mu guards, and tells those who wait.
func (s *state) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until met, which is called with mu held, is true; until ctx ends;
// or until life, that of the stand-in, does.
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
