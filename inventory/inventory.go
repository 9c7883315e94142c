package inventory

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Config holds the settings of an [Inventory]. Durations must be positive unless noted otherwise.
type Config struct {
	ResyncInterval   time.Duration // time between resyncs, which list and read all cards
	HealthInterval   time.Duration // time between checks of the known cards
	RecoveryHold     time.Duration // how long a device must stay healthy before it is offered again; may be 0
	ReprogramTimeout time.Duration // how long a passing condition can last before it makes the device unhealthy
	ReadTimeout      time.Duration // a card that doesn't respond within this time is unhealthy

	FlapLimit  int           // turns (changes between good and bad) allowed within FlapWindow before a quarantine; 0 means no quarantine
	FlapWindow time.Duration // not used if FlapLimit is 0

	// Holders returns the current holders of each device. It may block until its context ends, which happens after two
	// seconds. A device that leaves stays listed as unhealthy until it is free. If Holders is nil, a device that leaves
	// is removed from the list immediately.
	Holders func(context.Context) Holdings
	// Given receives a value after devices have been allocated. The inventory then calls Holders promptly, so that it
	// finds even a short-lived pod. Given may be nil.
	Given <-chan struct{}
	// Record contains the holdings at startup, in the same format that Holders returns. Its names and nodes are used
	// until Holders answers. The inventory doesn't modify it.
	Record map[string][]Holding
	// HoldersUnknown means that Record may be missing devices that are held, for example through the other API. No
	// devices are offered ([Snapshot.Awaiting]) until Holders returns an answer whose [Holdings.Awaiting] is false.
	HoldersUnknown bool
	// HoldersInterval is the time between calls to Holders while a device is held or is waiting for an answer.
	// Otherwise Holders is called only at each resync, to notice when it fails. HoldersInterval isn't used if Holders
	// is nil.
	HoldersInterval time.Duration
	// TombstoneGrace is how long a device that has left, or whose name has changed, stays listed while Holders fails.
	// It may be 0. While the daemon is out of file descriptors or memory, a card keeps its state for the same time, but
	// for at least three times HealthInterval.
	TombstoneGrace time.Duration
	Policy         Policy // at startup; see [Inventory.Use]
	// Remembered contains the devices as the previous daemon listed them, with their identities and Memory, keyed by
	// id. A device resumes its recovery hold and its quarantine unless there is now a different card in its place.
	Remembered map[string]*Device

	Metrics *metrics.Metrics // required
}

// Inventory publishes the devices of a node. Create it with [New], and run it once.
type Inventory struct {
	cfg  Config
	host sysfs.Host
	log  *zap.Logger

	hints   *hints
	pings   chan struct{}
	current *latest.Value[Snapshot]

	holdings atomic.Pointer[Holdings]
}

// New returns an inventory. Its snapshot is empty (Version 0) until Run is called.
func New(cfg Config, host sysfs.Host, log *zap.Logger) *Inventory {
	return &Inventory{
		cfg: cfg, host: host, log: log.Named("inventory"),
		hints: newHints(), pings: make(chan struct{}), current: latest.New(Snapshot{}),
	}
}

// Hint makes the inventory read a card, or all cards, because they may have changed. It never blocks. Hints for the
// same card or node are merged until the loop takes them.
func (inv *Inventory) Hint(h Hint) {
	inv.hints.add(h)
	inv.cfg.Metrics.Hint(h.Source)
}

// Use replaces the policy. It never blocks. If p has different families, all cards are read again through them. A
// device that is held under an id or name from the old policy stays listed under that id or name, as unhealthy, until
// it is free.
func (inv *Inventory) Use(p Policy) { inv.hints.use(p) }

// Forget drops the history of an absent card, such as 3b:00.0, that won't come back. The next card in its slot then
// starts with no history, even if the two cards can't be told apart. Devices that are still listed stay listed. Forget
// never blocks.
func (inv *Inventory) Forget(card string) { inv.hints.forget(card) }

// Latest returns the newest snapshot and a channel that is closed when there is a newer one.
func (inv *Inventory) Latest() (Snapshot, <-chan struct{}) { return inv.current.Load() }

// Holdings returns the newest answer from [Config.Holders], or the zero Holdings if there is none. The caller must not
// modify it.
func (inv *Inventory) Holdings() Holdings {
	if newest := inv.holdings.Load(); newest != nil {
		return *newest
	}
	return Holdings{}
}

// Alive waits until the loop receives a ping, and then returns nil. If ctx is done first, it returns ctx's error.
func (inv *Inventory) Alive(ctx context.Context) error {
	select {
	case inv.pings <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run lists and reads the cards, handles hints and publishes snapshots until ctx is done, and then returns nil. Before
// returning, it waits up to one second for hanging readings.
func (inv *Inventory) Run(ctx context.Context) error {
	resync := time.NewTicker(inv.cfg.ResyncInterval)
	defer resync.Stop()
	health := time.NewTicker(inv.cfg.HealthInterval)
	defer health.Stop()
	wake := time.NewTimer(0)
	defer wake.Stop()

	n := newNode(inv.cfg, time.Now())
	s := newScheduler(inv)
	p := newPoller(inv, &s.tasks)
	s.list(ctx, time.Time{})
	p.ask(ctx)
	for {
		now := time.Now()
		for _, o := range s.takeOutcomes() {
			n.apply(o, now)
		}
		s.startReadings(ctx, now)
		inv.publish(n, s.progress(now, p.answered), now)
		if n.ready {
			s.firstUntil = time.Time{}
		}
		p.plan(ctx, n.takeNeeds(), now)
		if next := earlier(s.next(), p.next, n.next(now)); next.IsZero() {
			wake.Stop()
		} else {
			wake.Reset(time.Until(next))
		}

		select {
		case <-ctx.Done():
			s.awaitTasks()
			return nil

		case <-inv.pings: // someone is checking whether the loop is alive

		case <-inv.hints.poke: // cards or nodes may have changed, or there is a new policy
			inv.takeHints(ctx, n, s, p)

		case found := <-s.listed: // all cards have been listed
			s.takeListing(ctx, found, time.Now())

		case found := <-s.resolved: // the card of a hinted device node has been found
			s.takeResolution(ctx, found)

		case r := <-s.results: // cards have been read; all results that are ready go into a single snapshot
			for more := true; more; {
				s.take(ctx, r, time.Now())
				select {
				case r = <-s.results:
				default:
					more = false
				}
			}

		case <-inv.cfg.Given: // devices have just been allocated
			p.given(time.Now())

		case answer := <-p.answers: // Holders has answered
			before := n.holders.Holdings
			stale := n.takeHoldings(answer, time.Now())
			newest := n.holders.Holdings
			inv.holdings.Store(&newest)
			p.take(ctx, answer.Asked, before, newest, stale)

		case <-resync.C: // an event may have been lost
			s.list(ctx, time.Time{})
			p.askWhenIdle(ctx)

		case <-health.C: // no event announces a change in health
			s.tick(ctx, n.steadyCards())

		case <-wake.C: // a reading, a query or a reservation is due
			now := time.Now()
			s.onTime(ctx, now)
			s.recheck(n.rechecks(now))
			p.onTime(ctx, now)
		}
	}
}

// takeHints handles the pending hints and the newest policy.
func (inv *Inventory) takeHints(ctx context.Context, n *node, s *scheduler, p *poller) {
	hinted := inv.hints.take()
	for _, card := range hinted.forgotten {
		n.forget(card)
	}
	if policy := hinted.policy; policy != nil {
		if now := time.Now(); !slices.Equal(policy.Families, s.families) {
			// The devices are withheld before Holders is asked about them, so an allocation at this moment is either
			// rejected or included in the answer.
			n.supersede(now)
			inv.publish(n, s.progress(now, p.answered), now)
			n.ready, n.complete = false, false
			p.restart(now)
			s.use(ctx, policy.Families, now)
		}
		n.usePolicy(*policy)
		inv.logUnmatched(n)
	}
	for _, h := range hinted.cards {
		s.hintCard(h.Card, h)
	}
	for name, h := range hinted.nodes {
		s.hintNode(ctx, name, h)
	}
	if hinted.everything {
		inv.log.Debug("hint received", logevent.HintReceived, logevent.Source(hinted.source))
		s.list(ctx, hinted.at)
	}
}

// progress says how far along a generation's first list is.
type progress struct {
	read bool // each card has been read or given up on
	due  bool // the first snapshot must be published
}

// publish reconciles the node, publishes a snapshot if anything has changed, and then logs the changes. It holds back a
// generation's first snapshot until all cards have been read and the holders are known, but no longer than firstGrace.
func (inv *Inventory) publish(n *node, first progress, now time.Time) {
	changes := n.reconcile(now)
	if !n.ready && first.due {
		n.ready, n.changed = true, true // an empty list is published too
		if n.holders.Awaiting {
			n.markAll()
			changes = append(changes, n.reconcile(now)...)
		}
	}
	finished := n.ready && !n.complete && first.read
	if finished {
		n.finish(now)
		n.changed = true
		changes = append(changes, n.reconcile(now)...)
	}
	version := uint64(0) // version of the snapshot being published; 0 if there is none
	if n.ready && n.changed {
		old, _ := inv.current.Load()
		version = old.Version + 1
		inv.current.Store(Snapshot{
			Version: version, Devices: n.devices, Complete: n.complete, Awaiting: n.holders.Awaiting, Generation: n.generation, Hinted: n.hinted,
		})
		n.copied, n.changed, n.hinted = false, false, time.Time{}
	}
	if len(changes) > 0 {
		inv.report(changes, now)
	}
	if version == 1 {
		inv.log.Info("first snapshot published", logevent.ScanDone, logevent.Count(len(n.devices)), logevent.Rev(version))
	}
	if finished {
		inv.logUnmatched(n)
	}
}

// logUnmatched warns about excluded addresses that don't match any device. Such an address may be a typo, and then the
// device that was meant to be excluded is still offered.
func (inv *Inventory) logUnmatched(n *node) {
	if unmatched := n.policy.unmatched(n.devices); n.complete && len(unmatched) > 0 {
		inv.log.Warn("excluded address has no device", logevent.ConfigNotice, logevent.Devices(unmatched))
	}
}
