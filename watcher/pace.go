package watcher

import (
	"math/rand/v2"
	"time"
)

// backoff paces attempts: each delay is about twice the one before, from first
// to most. The zero pace is not usable.
type backoff struct {
	first, most time.Duration
	next        time.Duration
}

// delay is how long to wait before the next attempt: between half and all of
// the step, so that the daemons of a rack do not knock in step.
func (b *backoff) delay() time.Duration {
	step := max(b.next, b.first)
	b.next = min(2*step, b.most)
	return step/2 + rand.N(step/2+1)
}

func (b *backoff) reset() { b.next = 0 }

// quiet is the least time between two warnings of the same kind.
const quiet = time.Minute

// limiter thins out warnings that someone else could make us write.
type limiter struct {
	last time.Time
	held int // since last, not said yet
}

// count counts one occurrence. It returns how many to speak of now, this one
// and those held back, or 0 to keep still.
func (l *limiter) count(now time.Time) int {
	l.held++
	if !l.last.IsZero() && now.Sub(l.last) < quiet {
		return 0
	}
	n := l.held
	l.last, l.held = now, 0
	return n
}
