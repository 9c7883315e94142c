package pulse

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Most is how long a piece of work may take before whoever does it counts as stuck.
// None of those that are watched takes milliseconds; on a machine that stands still
// for seconds, though, they do too. Ten seconds are the period of the chart's
// liveness probe: what is stuck fails the next one, and is restarted after six.
const Most = 10 * time.Second

// Pulse says of one goroutine whether it works, and since when. Make one with [New].
// The goroutine alone calls Work and Rest.
type Pulse struct {
	made time.Time
	busy atomic.Int64 // since when, in nanoseconds after made; 0: it waits
}

// New returns the pulse of a goroutine that waits.
func New() *Pulse { return &Pulse{made: time.Now()} }

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

// Alive returns nil, or that the work under way takes longer than [Most]. Anyone
// may call it.
func (p *Pulse) Alive() error {
	since := p.busy.Load()
	if since == 0 {
		return nil
	}
	if took := time.Since(p.made) - time.Duration(since); took > Most {
		return fmt.Errorf("stuck for %s", took.Round(time.Second))
	}
	return nil
}
