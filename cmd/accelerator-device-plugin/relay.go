package main

import (
	"context"
	"sync"

	"b-com.com/accelerator-device-plugin/internal/recorder"
	"b-com.com/accelerator-device-plugin/inventory"
)

// relay makes one inventory of those of all generations, for the Events: each mode is a
// generation of its snapshots. It goes when there is one inventory.
type relay struct {
	mu       sync.Mutex
	snapshot inventory.Snapshot
	stale    chan struct{}
	ask      recorder.Holders
}

func newRelay() *relay { return &relay{stale: make(chan struct{})} }

// Latest returns the newest snapshot and a channel that closes when it is stale.
func (r *relay) Latest() (inventory.Snapshot, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot, r.stale
}

func (r *relay) holders(ctx context.Context) (map[string][]inventory.Holding, error) {
	r.mu.Lock()
	ask := r.ask
	r.mu.Unlock()
	return ask(ctx)
}

// follow passes on the snapshots of the next generation until ctx ends.
func (r *relay) follow(ctx context.Context, inv *inventory.Inventory, ask recorder.Holders) error {
	r.mu.Lock()
	r.ask = ask
	generation := r.snapshot.Generation + 1
	r.mu.Unlock()
	for {
		snapshot, stale := inv.Latest()
		if snapshot.Version > 0 {
			r.mu.Lock()
			snapshot.Version, snapshot.Generation = r.snapshot.Version+1, generation
			r.snapshot = snapshot
			close(r.stale)
			r.stale = make(chan struct{})
			r.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
		}
	}
}
