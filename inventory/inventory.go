package inventory

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Config holds the times of an [Inventory], and whom it asks. Times must be
// positive unless said otherwise.
type Config struct {
	ResyncInterval   time.Duration // between two listings of all cards, with a reading of each
	HealthInterval   time.Duration // between two checks of the known cards
	RecoveryHold     time.Duration // how long good news must have held; 0: not at all
	ReprogramTimeout time.Duration // how long a passing condition is only degraded
	ReadTimeout      time.Duration // after which a card that does not answer is unhealthy

	FlapLimit  int           // more turns than this within FlapWindow: quarantine; 0: none
	FlapWindow time.Duration // without FlapLimit: not used

	// Holders says which devices are held, by id, as what and by whom; one that is
	// not in the answer is free. It may block until its context ends, which is soon.
	// A device that leaves stays listed, unhealthy, until it is free. nil: nobody is
	// asked, and what leaves is off the list at once.
	Holders func(context.Context) (map[string][]Holding, error)
	// Record has the holdings of before the start, in the form of Holders' answers. It counts
	// until Holders answers or TombstoneGrace is over, because a kubelet may answer late after
	// its start. Only the nodes in it are used. The inventory reads it and does not change it.
	Record map[string][]Holding
	// HoldersInterval is the time between two questions while the answer matters; else
	// it is asked with each resync, so that it is known whether there is an answer.
	// Without Holders: not used.
	HoldersInterval time.Duration
	// TombstoneGrace is how long one that left stays listed when Holders fails; 0:
	// not at all. It is also how long a card keeps its state while the daemon is out of
	// descriptors or memory; then it is at least three times HealthInterval.
	TombstoneGrace time.Duration
	Policy         Policy // at first; see [Inventory.Use]

	Metrics *metrics.Metrics // nil: nothing is counted
}

// Inventory is the actor. Create it with [New], run it once.
type Inventory struct {
	cfg      Config
	host     sysfs.Host
	families []Family
	log      *zap.Logger

	hints   *hints
	pings   chan struct{}
	current atomic.Pointer[published]
}

// published is a snapshot and the channel that is closed when the next one is
// stored.
type published struct {
	Snapshot
	stale chan struct{}
}

// New returns an inventory that knows nothing yet (Version 0).
func New(cfg Config, host sysfs.Host, log *zap.Logger) *Inventory {
	inv := &Inventory{
		cfg: cfg, host: host, families: cfg.Policy.Families, log: log.Named("inventory"),
		hints: newHints(), pings: make(chan struct{}),
	}
	inv.current.Store(&published{stale: make(chan struct{})})
	return inv
}

// Hint says that something may have changed. It never blocks and is never
// dropped: hints for the same place are merged until the loop takes them.
func (inv *Inventory) Hint(h Hint) {
	inv.hints.add(h)
	inv.cfg.Metrics.Hint(h.Source)
}

// Use makes p the policy from now on. It never blocks. If p has other families, all cards are
// read again through them: what is held under an id or a name of the former policy stays
// listed under it, unhealthy, until it is free.
func (inv *Inventory) Use(p Policy) { inv.hints.use(p) }

// Latest returns the newest snapshot and a channel that is closed when a newer
// one is there.
func (inv *Inventory) Latest() (Snapshot, <-chan struct{}) {
	p := inv.current.Load()
	return p.Snapshot, p.stale
}

// Alive returns nil when the loop takes a ping, and ctx's error when it does not
// in time.
func (inv *Inventory) Alive(ctx context.Context) error {
	select {
	case inv.pings <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run scans, follows hints and publishes until ctx ends; then it returns nil. A
// reading that does not come back is left behind after a second.
func (inv *Inventory) Run(ctx context.Context) error {
	l := newLoop(inv)
	l.run(ctx)
	l.awaitReaders()
	return nil
}

// store makes s the newest snapshot: first the new version, then the news of it.
func (inv *Inventory) store(s Snapshot) {
	old := inv.current.Swap(&published{Snapshot: s, stale: make(chan struct{})})
	close(old.stale)
}
