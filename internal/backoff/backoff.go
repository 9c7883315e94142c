package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff computes the waits between attempts. Their upper bound doubles from First to Most. Each wait
// is random, from half the bound to the bound, so that the nodes of a cluster do not retry at the
// same time. First must be above 0.
type Backoff struct {
	First, Most time.Duration
	last        time.Duration // the last bound; zero: no attempt yet
}

// Next returns the time to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.First), b.Most)
	return b.last/2 + rand.N(b.last/2+1)
}

// NextAfter returns the time to wait if the server has requested a wait: a random time between asked
// and one and a half times asked, or the result of Next if that is longer.
func (b *Backoff) NextAfter(asked time.Duration) time.Duration {
	return max(b.Next(), asked+rand.N(asked/2+1))
}

// Reset sets the bound back to First.
func (b *Backoff) Reset() { b.last = 0 }

// Wait blocks for a time. It returns false if ctx ends first.
func Wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
