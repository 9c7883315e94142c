package inventory

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/event"
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
	cfg  Config
	host sysfs.Host
	log  *zap.Logger

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
		cfg: cfg, host: host, log: log.Named("inventory"),
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

// Run lists and reads the cards, follows hints and publishes until ctx ends; then it returns
// nil. A reading that does not come back is left behind after a second.
func (inv *Inventory) Run(ctx context.Context) error {
	resync := time.NewTicker(inv.cfg.ResyncInterval)
	defer resync.Stop()
	health := time.NewTicker(inv.cfg.HealthInterval)
	defer health.Stop()
	wake := time.NewTimer(0)
	defer wake.Stop()

	n := newNode(inv.cfg, time.Now())
	s := newScheduler(inv, n)
	p := &poller{Inventory: inv, node: n, scheduler: s, answers: make(chan answer)}
	s.list(ctx, time.Time{})
	p.ask(ctx)
	for {
		now := time.Now()
		s.startReadings(ctx, now)
		inv.publish(n, s, p, now)
		p.follow(ctx, now)
		if next := earlier(s.next(), earlier(p.next, n.nextExpiry())); next.IsZero() {
			wake.Stop()
		} else {
			wake.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			s.awaitReaders()
			return nil
		case <-inv.pings:
		case <-inv.hints.poke:
			inv.takeHints(ctx, n, s, p)
		case r := <-s.results:
			for more := true; more; { // results that wait already make one snapshot
				s.take(ctx, r, time.Now())
				select {
				case r = <-s.results:
				default:
					more = false
				}
			}
		case found := <-s.listed:
			s.takeListing(ctx, found, time.Now())
		case found := <-s.resolved:
			s.takeResolution(ctx, found)
		case a := <-p.answers:
			p.take(ctx, a, time.Now())
		case <-resync.C:
			s.list(ctx, time.Time{})
			p.askIdly(ctx)
		case <-health.C:
			s.tick(ctx)
		case <-wake.C:
			p.takeTime(ctx, time.Now())
			s.takeTime(ctx, time.Now())
		}
	}
}

// takeHints takes what was hinted since the last time, and the newest policy.
func (inv *Inventory) takeHints(ctx context.Context, n *node, s *scheduler, p *poller) {
	hinted := inv.hints.take()
	if policy := hinted.policy; policy != nil {
		now := time.Now()
		if !slices.Equal(policy.Families, s.families) {
			// The devices are withheld before it is asked who holds them: an allocation of this
			// moment is either refused, or in the answer.
			n.supersede(now)
			inv.publish(n, s, p, now)
			s.use(ctx, policy.Families)
			p.heard, p.since = inv.cfg.Holders == nil, now
		}
		n.usePolicy(*policy)
		inv.logIdle(n)
	}
	for _, h := range hinted.cards {
		s.hintCard(h.Card, h)
	}
	for name, h := range hinted.nodes {
		s.hintNode(ctx, name, h)
	}
	if hinted.everything {
		inv.log.Debug("hint received", event.HintReceived, event.Source(hinted.source))
		s.list(ctx, hinted.at)
	}
}

// publish makes a snapshot of what changed, and then logs it. The first one of a generation
// waits until all cards have been read, though not for cards that are slow to answer.
func (inv *Inventory) publish(n *node, s *scheduler, p *poller, now time.Time) {
	changes := n.reconcile(now)
	late := !s.firstUntil.IsZero() && !now.Before(s.firstUntil)
	if !n.ready && (s.first != nil && len(s.first) == 0 && p.heard || late) {
		n.ready, n.news = true, true // an empty list is news, too
	}
	finished := n.ready && !n.complete && s.first != nil && len(s.first) == 0
	if finished {
		n.finish(now)
		n.news = true
		changes = append(changes, n.reconcile(now)...)
	}
	old := inv.current.Load()
	first := n.ready && old.Version == 0
	if n.ready && n.news {
		next := &published{stale: make(chan struct{}), Snapshot: Snapshot{
			Version: old.Version + 1, Devices: n.devices, Complete: n.complete, Generation: n.generation, Hinted: n.hinted,
		}}
		inv.current.Store(next) // first the new version, then the news of it
		close(old.stale)
		n.copied, n.news, n.hinted = false, false, time.Time{}
	}
	inv.report(changes, now)
	if first {
		inv.log.Info("first scan done", event.ScanDone, event.Count(len(n.devices)), event.Rev(old.Version+1))
	}
	if finished {
		inv.logIdle(n)
	}
}

// logIdle warns of excluded addresses that no device has: a slip of the pen would leave the
// device that was meant on offer.
func (inv *Inventory) logIdle(n *node) {
	if idle := n.policy.idle(n.devices); n.complete && len(idle) > 0 {
		inv.log.Warn("excluded address has no device", event.ConfigNotice, event.Devices(idle))
	}
}
