package main

import (
	"context"
	"time"
)

// holdersAge is the greatest age of the kubelet's answer that /devices shows. The kubelet
// answers 100 requests a second, for all its clients together.
const holdersAge = time.Second

// sharedHolders asks the kubelet for the holders of devices at most once in [holdersAge],
// however many callers there are. It keeps an answer for that time, and an error too.
type sharedHolders struct {
	ask   func() (held, error)
	turn  chan struct{} // full while a caller uses the fields below
	asked time.Time
	held  held
	err   error
}

// shareHolders returns a sharedHolders for the kubelet behind socket. A request ends with
// ctx, not with the caller that made it: other callers wait for the same answer.
func shareHolders(ctx context.Context, socket string) *sharedHolders {
	return &sharedHolders{
		ask:  func() (held, error) { return askHolders(ctx, socket, holdersSoon) },
		turn: make(chan struct{}, 1),
	}
}

// latest returns the holders of devices. It blocks while the kubelet is asked. A caller
// that waits for the request of another one returns when ctx ends.
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
