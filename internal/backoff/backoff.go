package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff is the time between attempts: it doubles from First to Most, and each
// is drawn from its upper half so that the nodes of a cluster do not march in
// step. First must be above 0.
type Backoff struct {
	First, Most time.Duration
	last        time.Duration // before the draw; zero: no attempt yet
}

// Next is how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.First), b.Most)
	return b.last/2 + rand.N(b.last/2+1)
}

// NextAfter is Next where the other side has asked for a time to wait. It returns
// no less than that: a time drawn evenly from asked to half as much again, or what
// Next returns if that is longer.
func (b *Backoff) NextAfter(asked time.Duration) time.Duration {
	return max(b.Next(), asked+rand.N(asked/2+1))
}

// Reset begins again with First.
func (b *Backoff) Reset() { b.last = 0 }
