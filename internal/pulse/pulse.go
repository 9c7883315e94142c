package pulse

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Patience is how long a piece of work can take before its goroutine counts as stuck. The daemon's work takes less than
// a millisecond, or a few seconds if the whole machine stalls. Ten seconds is also the period of the chart's liveness
// probe, which restarts the daemon after six failures in a row.
const Patience = 10 * time.Second

// Pulse is the state of one goroutine. Only that goroutine calls Work and Rest. Create it with [New].
type Pulse struct {
	patience time.Duration
	made     time.Time
	busy     atomic.Int64 // when the work began, in nanoseconds after made; 0 if the goroutine is waiting
}

// New returns a Pulse for a waiting goroutine. The goroutine counts as stuck when a piece of work takes longer than
// patience.
func New(patience time.Duration) *Pulse { return &Pulse{patience: patience, made: time.Now()} }

// Work marks the start of work. It has no effect if work is already in progress.
func (p *Pulse) Work() { p.WorkSince(time.Now()) }

// WorkSince is like Work, but for work that began at the given time.
func (p *Pulse) WorkSince(at time.Time) {
	if p.busy.Load() == 0 {
		p.busy.Store(int64(max(at.Sub(p.made), 1)))
	}
}

// Rest marks the end of the work in progress.
func (p *Pulse) Rest() { p.busy.Store(0) }

// Alive returns an error if the work in progress has taken too long. It is safe for concurrent use.
func (p *Pulse) Alive() error {
	since := p.busy.Load()
	if since == 0 {
		return nil
	}
	if took := time.Since(p.made) - time.Duration(since); took > p.patience {
		return fmt.Errorf("stuck for %s", took.Round(time.Second))
	}
	return nil
}
