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

// NextAfter returns the time to wait when the other side has asked for a time: a random
// time between asked and one and a half times asked, or the result of Next if that is
// longer.
func (b *Backoff) NextAfter(asked time.Duration) time.Duration {
	return max(b.Next(), asked+rand.N(asked/2+1))
}

// Reset begins again with First.
func (b *Backoff) Reset() { b.last = 0 }
