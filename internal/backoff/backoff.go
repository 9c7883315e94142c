package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff computes the delays between attempts. Each delay is random, between half of an upper bound and the bound
// itself, so that a cluster's nodes don't all retry at the same time. The bound starts at First, which must be greater
// than 0, and doubles with each attempt, up to Most.
type Backoff struct {
	First, Most time.Duration
	last        time.Duration // the last bound; zero if there has been no attempt yet
}

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.First), b.Most)
	return b.last/2 + rand.N(b.last/2+1)
}

// NextAfter returns how long to wait if the server has asked for a delay: a random time between that delay and one and
// a half times as much, or the result of Next, whichever is longer.
func (b *Backoff) NextAfter(asked time.Duration) time.Duration {
	return max(b.Next(), asked+rand.N(asked/2+1))
}

// Reset sets the bound back to First.
func (b *Backoff) Reset() { b.last = 0 }

// Wait waits for d. It returns false if ctx is done first.
func Wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
