package server

import (
	"math/rand/v2"
	"time"
)

// backoff is the time between attempts: it doubles from min to max, and each is
// drawn from its upper half so that the nodes of a cluster do not march in step.
type backoff struct {
	min, max time.Duration
	last     time.Duration // before the draw; zero: no attempt yet
}

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.min), b.max)
	return b.last/2 + rand.N(b.last/2+1)
}

func (b *backoff) reset() { b.last = 0 }
