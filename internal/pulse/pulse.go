package pulse

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Patience is how long a piece of work may take before whoever does it counts as
// stuck. None of those that are watched takes milliseconds, but on a machine that
// stands still for seconds, they do too. Ten seconds are the period of the chart's
// liveness probe, which restarts the daemon after six failures in a row.
const Patience = 10 * time.Second

// Pulse says of one goroutine whether it works, and since when. Make one with [New].
// The goroutine alone calls Work and Rest.
type Pulse struct {
	patience time.Duration
	made     time.Time
	busy     atomic.Int64 // since when, in nanoseconds after made; 0: it waits
}

// New returns the pulse of a goroutine that waits. It is stuck when a piece of work
// has taken longer than patience.
func New(patience time.Duration) *Pulse { return &Pulse{patience: patience, made: time.Now()} }

// Work says that a piece of work begins now. Work that is under way goes on.
func (p *Pulse) Work() { p.WorkSince(time.Now()) }

// WorkSince is Work for whoever knows the time.
func (p *Pulse) WorkSince(at time.Time) {
	if p.busy.Load() == 0 {
		p.busy.Store(int64(max(at.Sub(p.made), 1)))
	}
}

// Rest says that the goroutine waits for something to do, however long.
func (p *Pulse) Rest() { p.busy.Store(0) }

// Alive returns nil, or that the work under way takes too long already. Anyone may
// call it.
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
