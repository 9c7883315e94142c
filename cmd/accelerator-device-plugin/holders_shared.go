package main

import (
	"context"
	"time"
)

// holdersAge is how old the kubelet's answer may be that /devices shows. The kubelet
// allows 100 questions a second for all its clients together.
const holdersAge = time.Second

// sharedHolders asks the kubelet who holds what at most once in [holdersAge], however
// many callers there are. It keeps an answer for that time, and an error too.
type sharedHolders struct {
	ask   func() (held, error)
	turn  chan struct{} // full while a caller uses the fields below
	asked time.Time
	held  held
	err   error
}

// shareHolders returns a sharedHolders for the kubelet behind socket. Its questions
// end with ctx and not with one caller, because other callers wait for the same answer.
func shareHolders(ctx context.Context, socket string) *sharedHolders {
	return &sharedHolders{
		ask:  func() (held, error) { return askHolders(ctx, socket, holdersSoon) },
		turn: make(chan struct{}, 1),
	}
}

// latest returns who holds what. It blocks while the kubelet is asked; a caller that
// only waits for the question of another one is let go when ctx ends.
func (s *sharedHolders) latest(ctx context.Context) (held, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.asked.IsZero() || time.Since(s.asked) >= holdersAge {
		s.asked = time.Now()
		s.held, s.err = s.ask()
	}
	return s.held, s.err
}
