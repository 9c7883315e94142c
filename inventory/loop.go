package inventory

import (
	"context"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

const (
	// firstGrace is how long the first snapshot waits for cards that are slow to
	// answer. It waits for all at first: a list that grows card by card would cost
	// the pods that are re-admitted after a boot their devices.
	firstGrace = 250 * time.Millisecond
	// maxRoutineReads bounds the cards that are read in their turn at once: a reading
	// takes a thread while it waits for hardware, and one that takes long has a second
	// beside it. Hinted cards do not count, nor do those whose readings are overdue.
	maxRoutineReads = 32
	// leaveReadersAfter is how long the end waits for readings that hang.
	leaveReadersAfter = time.Second
)

// loop is what Run's goroutine owns, and nobody else touches.
type loop struct {
	*Inventory
	readers sync.WaitGroup // every goroutine that this one starts

	cards      map[string]*card
	timed      map[*card]bool             // cards for which the clock matters
	unreadable map[*card]bool             // cards whose last reading failed or is overdue
	virtual    map[string]map[string]bool // physical function -> its virtual ones
	now        []*card                    // to be read at once
	routine    []*card                    // to be read in their turn
	busy       int                        // cards that are being read in their turn, and in time

	results  chan result
	listed   chan listing
	resolved chan resolution
	listing  bool      // a listing is under way
	relist   bool      // another one was asked for meanwhile
	allAt    time.Time // first hint for everything that the next listing answers

	// first holds the cards of the first scan that have not been read yet. nil
	// before the first listing. Nothing is published until it is empty, or for
	// firstGrace.
	first      map[string]bool
	firstUntil time.Time // when publishing begins all the same
	ready      bool
	complete   bool // first was empty when the newest snapshot was made

	rules      rules
	policy     Policy
	tombstones tombstones
	holders    holders
	claims     claims
	owed       map[string]owed     // by device
	released   map[string]released // by device
	waiting    map[string]bool     // devices that wait for containers to end that have a right to nodes
	began      time.Time
	devices    []*Device // sorted by ID; belongs to the newest snapshot's readers until dirty
	version    uint64
	dirty      bool      // devices is a copy of ours that differs from the newest snapshot
	hinted     time.Time // earliest hint behind what is dirty
	unsaid     []func()  // what is to be logged and counted when that is published

	listErr   string // last error of a listing, so that it is logged once
	listAgain bool   // the last listing met the daemon's own trouble, and is to be repeated
	shortage  shortage
}

func newLoop(inv *Inventory) *loop {
	return &loop{
		Inventory:  inv,
		cards:      make(map[string]*card),
		timed:      make(map[*card]bool),
		unreadable: make(map[*card]bool),
		virtual:    make(map[string]map[string]bool),
		results:    make(chan result),
		listed:     make(chan listing),
		resolved:   make(chan resolution),
		policy:     inv.cfg.Policy,
		rules: rules{
			hold: inv.cfg.RecoveryHold, reprogram: inv.cfg.ReprogramTimeout,
			flapLimit: inv.cfg.FlapLimit, flapWindow: inv.cfg.FlapWindow,
		},
		tombstones: make(tombstones),
		holders:    holders{answers: make(chan answer), record: inv.cfg.Record},
		claims:     newClaims(),
		owed:       make(map[string]owed),
		released:   make(map[string]released),
		waiting:    make(map[string]bool),
		began:      time.Now(),
	}
}

func (l *loop) run(ctx context.Context) {
	resync := time.NewTicker(l.cfg.ResyncInterval)
	defer resync.Stop()
	health := time.NewTicker(l.cfg.HealthInterval)
	defer health.Stop()
	wake := time.NewTimer(0)
	defer wake.Stop()

	l.cfg.Metrics.CardsUnreadable(0) // whatever another inventory has left there
	l.list(ctx, time.Time{})
	l.askHolders(ctx)
	for id := range l.holders.record {
		l.reclaim(id)
	}
	for {
		l.startReadings(ctx)
		l.judgeClaimed(time.Now())
		l.publish()
		l.speak()
		l.sleepUntil(wake)
		select {
		case <-ctx.Done():
			return
		case <-l.pings:
		case <-l.hints.poke:
			l.takeHints(ctx)
		case r := <-l.results:
			l.absorb(ctx, r)
			l.absorbMore(ctx)
		case found := <-l.listed:
			l.takeListing(ctx, found)
		case found := <-l.resolved:
			l.takeResolution(ctx, found)
		case a := <-l.holders.answers:
			l.takeAnswer(ctx, a)
		case <-resync.C:
			l.list(ctx, time.Time{})
			l.askIdly(ctx)
		case <-health.C:
			l.endShortage()
			for _, c := range l.cards {
				l.ask(c, wantCheck)
			}
			if l.listAgain {
				l.list(ctx, time.Time{})
			}
		case <-wake.C:
			l.lookAtClock(ctx, time.Now())
		}
	}
}

// absorbMore takes the results that wait already, so that a burst makes one
// snapshot. It does not wait for more.
func (l *loop) absorbMore(ctx context.Context) {
	for {
		select {
		case r := <-l.results:
			l.absorb(ctx, r)
		default:
			return
		}
	}
}

// takeHints turns hints into wishes to read.
func (l *loop) takeHints(ctx context.Context) {
	p := l.hints.take()
	if p.policy != nil {
		l.usePolicy(*p.policy)
	}
	for _, h := range p.cards {
		l.hintCard(h.Card, h)
	}
	for name, h := range p.nodes {
		l.hintNode(ctx, name, h)
	}
	if p.everything {
		l.log.Debug("hint received", event.HintReceived, event.Source(p.source))
		l.list(ctx, p.at)
	}
}

// hintCard asks for a card and for the virtual functions that share its FME.
func (l *loop) hintCard(address string, h Hint) {
	l.log.Debug("hint received", event.HintReceived, event.PCI(address), event.Source(h.Source))
	c := l.cards[address]
	if c == nil {
		c = &card{address: address}
		l.cards[address] = c
	}
	l.hint(c, h)
	for vf := range l.virtual[address] {
		l.hint(l.cards[vf], h)
	}
}

func (l *loop) hint(c *card, h Hint) {
	if c.hinted.IsZero() {
		c.hinted = h.At
	}
	if h.RecoveryFailed {
		l.recoveryFailed(c, h)
	}
	l.ask(c, wantNow)
}

// hintNode asks for a reading of the cards that are known to have this node, and resolves
// the node's own number. Drivers reuse names, lowest first, so the node may belong to
// another card by now. A reading that is under way may have passed the node before this
// hint: if its result has the node, update asks for another reading of its card.
func (l *loop) hintNode(ctx context.Context, name string, h Hint) {
	var owners []string
	for address, c := range l.cards {
		if c.reading {
			c.nodeHints = keepFirst(c.nodeHints, name, h)
		}
		if c.hasNode(name) {
			owners = append(owners, address)
		}
	}
	for _, address := range owners {
		l.hintCard(address, h)
	}
	l.resolve(ctx, owners, h)
}

// ask puts a card in a queue. A card that is being read is asked again when that
// reading has come back: it may have passed the place of the change already.
func (l *loop) ask(c *card, w want) {
	c.want = max(c.want, w)
	l.queue(c)
}

func (l *loop) queue(c *card) {
	if !c.mayRead() || c.want <= c.queued {
		return
	}
	c.queued = c.want
	if c.want == wantNow {
		l.now = append(l.now, c)
	} else {
		l.routine = append(l.routine, c)
	}
}

// startReadings starts what is due. A card that was moved to the other queue
// stands in both, and is read once.
func (l *loop) startReadings(ctx context.Context) {
	for _, c := range l.now {
		c.queued = wantNothing
		if c.want == wantNow && c.mayRead() {
			l.read(ctx, c)
		}
	}
	l.now = l.now[:0]
	for len(l.routine) > 0 && l.busy < maxRoutineReads {
		c := l.routine[0]
		l.routine = l.routine[1:]
		c.queued = wantNothing
		if (c.want == wantRoutine || c.want == wantCheck) && c.mayRead() {
			l.busy++
			c.counted = true
			l.read(ctx, c)
		}
	}
}

// sleepUntil sets the timer to the earliest moment at which the clock alone
// changes something.
func (l *loop) sleepUntil(wake *time.Timer) {
	var next time.Time
	earliest := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if !l.ready {
		earliest(l.firstUntil)
	}
	earliest(l.nextQuestion())
	for c := range l.timed {
		earliest(c.recheck)
		switch {
		case c.reading && c.doubted:
			earliest(c.started.Add(l.cfg.ReadTimeout))
		case c.reading:
			earliest(c.started.Add(l.cfg.ReadTimeout / 2))
		}
	}
	if next.IsZero() {
		wake.Stop()
		return
	}
	wake.Reset(time.Until(next))
}

// lookAtClock finds the readings that are overdue, the holds that end, and
// whether somebody is to be asked again.
func (l *loop) lookAtClock(ctx context.Context, now time.Time) {
	l.lookAtHolders(ctx, now)
	for c := range l.timed {
		switch took := now.Sub(c.started); {
		case c.reading && took >= l.cfg.ReadTimeout:
			l.giveUp(ctx, c, now)
		case c.reading && took >= l.cfg.ReadTimeout/2 && !c.doubted:
			l.doubt(ctx, c)
		}
		if !c.recheck.IsZero() && !now.Before(c.recheck) {
			c.recheck = time.Time{}
			if !c.overdue { // then there is nothing to recheck until it is read
				l.ask(c, wantNow)
			}
		}
	}
}

// awaitReaders waits for the goroutines under way. What hangs in the kernel
// cannot be woken: it is left behind, and said.
func (l *loop) awaitReaders() {
	done := make(chan struct{})
	go func() { l.readers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(leaveReadersAfter):
		for _, c := range l.cards {
			if c.reading || c.stuck > 0 {
				l.log.Warn("reading left behind", event.ReadTimeout, event.PCI(c.address), event.Lasted(time.Since(c.started)))
			}
		}
	}
}
