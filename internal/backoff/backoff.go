package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff returns the times between attempts. The bound doubles from First to Most, and each
// time is a random one from the upper half, so that the nodes of a cluster do not retry at the
// same moment. First must be above 0.
type Backoff struct {
	First, Most time.Duration
	last        time.Duration // the last bound; zero: no attempt yet
}

// Next returns the time to wait before the next attempt.
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
