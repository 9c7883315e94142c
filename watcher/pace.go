package watcher

import "time"

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
