package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// result is one reading that came back.
type result struct {
	card    *card
	number  int // of the reading, among the card's
	outline bool
	family  string
	reading Reading
	took    time.Duration
	err     error // errGone: no family has this card; others: it could not be read
}

var errGone = fmt.Errorf("card is gone: %w", fs.ErrNotExist)

// read starts the reading of a card, or a check where that is enough.
func (l *loop) read(ctx context.Context, c *card) {
	check := c.want == wantCheck && c.steady()
	c.want, c.queued = wantNothing, wantNothing
	c.reading, c.overdue, c.doubted, c.started = true, false, false, time.Now()
	c.newest++
	c.nodeHints = nil
	c.answered, c.hinted = c.hinted, time.Time{}
	l.timed[c] = true
	r := result{card: c, number: c.newest}
	if check {
		r.family, r.reading = c.known.family, c.known.reading
	}
	l.start(ctx, r, Family.Read)
}

// start reads outside the loop and sends the result to it. If r already has a reading, it
// is checked first, and kept if it still holds.
func (l *loop) start(ctx context.Context, r result, read func(Family, sysfs.Host, string) (Reading, error)) {
	address := r.card.address
	l.readers.Go(func() {
		defer backlog.FlushOnPanic(l.log)
		runtime.Gosched() // on a single processor, what was just published goes out first
		began := time.Now()
		if len(r.reading.Observed) == 0 || !sysfs.Unchanged(r.reading.Observed) {
			r.family, r.reading, r.err = l.readCard(address, read)
		}
		r.took = time.Since(began)
		select {
		case l.results <- r:
		case <-ctx.Done():
		}
	})
}

// readCard asks the families in turn. It runs outside the loop and touches
// nothing of it.
func (inv *Inventory) readCard(address string, read func(Family, sysfs.Host, string) (Reading, error)) (family string, found Reading, err error) {
	var trouble error
	err = errGone
	for _, f := range inv.families {
		reading, ferr := read(f, inv.host, address)
		if ferr == nil {
			ferr = reading.OwnTrouble()
		}
		switch {
		case ferr == nil && len(reading.Units) > 0:
			return f.Name(), reading, nil
		case ferr == nil:
			family, found, err = f.Name(), reading, nil
		case !sysfs.Gone(ferr):
			trouble = errors.Join(trouble, fmt.Errorf("%s: %w", f.Name(), ferr))
		}
	}
	if trouble != nil {
		return "", Reading{}, trouble
	}
	return family, found, err
}

// absorb takes in a reading that came back, late or not.
func (l *loop) absorb(ctx context.Context, r result) {
	c, now := r.card, time.Now()
	switch {
	case l.cards[c.address] != c:
		return // the card was given up; its slot may have another one
	case r.outline:
		l.takeOutline(ctx, c, r, now)
		return
	case r.number != c.newest || !c.reading:
		l.cameBack(c, r, now)
		return
	}
	c.reading = false
	l.uncount(c)
	switch {
	case errors.Is(r.err, errGone):
		l.cfg.Metrics.ScanGone(r.took)
		l.remove(ctx, c)
	case sysfs.OwnTrouble(r.err):
		l.cfg.Metrics.ScanStarved(r.took)
		l.starve(c, r.err, now)
	case r.err != nil:
		l.cfg.Metrics.ScanFailed(r.took)
		l.failed(ctx, c, r.err, now)
	default:
		l.cfg.Metrics.ScanDone(r.took)
		l.succeeded(c, r)
		l.update(ctx, c, r, now)
		c.known = r
		delete(l.first, c.address)
	}
	l.countUnreadable(c)
	l.watchClock(c)
	l.queue(c) // it may have been asked for again meanwhile
}

// cameBack takes note of a reading that was overdue. What it read may be as old
// as it is, and is not believed: if no newer reading has told more, the card is
// read again.
func (l *loop) cameBack(c *card, r result, now time.Time) {
	c.stuck--
	if r.number != c.newest || !c.overdue {
		l.queue(c) // it may have been asked for while too many hung
		return
	}
	c.overdue = false
	l.log.Info("reading came back", event.ReadRecovered, event.PCI(c.address), event.Lasted(now.Sub(c.started)))
	l.ask(c, wantNow)
}

// uncount frees the place of a routine reading.
func (l *loop) uncount(c *card) {
	if c.counted {
		l.busy--
		c.counted = false
	}
}

// watchClock keeps the set of cards for which the clock matters.
func (l *loop) watchClock(c *card) {
	if c.recheck.IsZero() && !c.reading {
		delete(l.timed, c)
	} else {
		l.timed[c] = true
	}
}

// doubt reads a card once more beside a reading that takes long. What holds that one
// up may have begun under its hands, and be known to one that begins now: the kernel
// locks the errors of an FME while it programs, and these are not asked then.
// Whichever comes back first counts.
func (l *loop) doubt(ctx context.Context, c *card) {
	c.doubted = true
	if c.stuck+1 >= maxStuck {
		return
	}
	c.stuck++ // one of the two will be late
	l.start(ctx, result{card: c, number: c.newest}, Family.Read)
}

// giveUp declares the reading under way overdue: nobody waits for it any longer.
func (l *loop) giveUp(ctx context.Context, c *card, now time.Time) {
	c.reading, c.overdue = false, true
	c.readable()
	c.stuck++
	l.uncount(c)
	l.countUnreadable(c)
	l.cfg.Metrics.ScanTimeout(now.Sub(c.started))
	l.log.Warn("reading timed out", event.ReadTimeout, event.PCI(c.address), event.Lasted(now.Sub(c.started)))
	l.distrust(ctx, c, now)
	l.watchClock(c)
	l.queue(c)
}

// failed counts a reading that failed. What was known stays for a while: a card
// that cannot be read is not a card that is gone. A burst of hints is no reason
// to lose patience sooner, so no more than one is counted per health interval.
func (l *loop) failed(ctx context.Context, c *card, err error, now time.Time) {
	c.readable()
	counts := c.failures == 0 || now.Sub(c.failedAt) >= l.cfg.HealthInterval
	if counts {
		c.failures, c.failedAt = c.failures+1, now
	}
	log := l.log.Debug
	if counts && (c.failures == 1 || c.failures == failuresUntilUnhealthy) {
		log = l.log.Warn
	}
	log("card could not be read", event.ScanFailed, event.PCI(c.address), event.Count(c.failures), event.Err(err))
	if c.unreadable() != nil {
		l.distrust(ctx, c, now)
	}
}

// distrust makes the devices of a card unhealthy because it cannot be read. Of a
// card that was never read, which devices it has is not known yet: they are
// looked up without asking the card.
func (l *loop) distrust(ctx context.Context, c *card, now time.Time) {
	if len(c.ports) == 0 {
		l.start(ctx, result{card: c, outline: true}, Family.Outline)
		return
	}
	l.judgeAll(c, now)
	delete(l.first, c.address)
}

// unreadable is why a card cannot be read, nil where it can.
func (c *card) unreadable() []Condition {
	switch {
	case c.overdue:
		return []Condition{{Reason: ReasonReadTimeout, Health: Unhealthy}}
	case c.unchecked:
		return []Condition{{Reason: ReasonUnchecked, Health: Unhealthy}}
	case c.failures >= failuresUntilUnhealthy, c.failures > 0 && !c.wasRead:
		return []Condition{{Reason: ReasonScanFailed, Health: Unhealthy}}
	}
	return nil
}

// countUnreadable keeps count of the cards whose last reading failed or is overdue.
func (l *loop) countUnreadable(c *card) {
	if l.cards[c.address] == c && (c.overdue || c.failures > 0) {
		l.unreadable[c] = true
	} else {
		delete(l.unreadable, c)
	}
	l.cfg.Metrics.CardsUnreadable(len(l.unreadable))
}

// trouble is what is wrong with a whole card, beside what is read of its ports.
func (c *card) trouble() []Condition {
	trouble := c.unreadable()
	if c.recoveryFailed {
		trouble = append(trouble, Condition{Reason: ReasonRecoveryFailed, Health: Unhealthy})
	}
	return trouble
}

// recoveryFailed believes the kernel that it has given a card up, until a reading
// that begins now shows that it answers.
func (l *loop) recoveryFailed(c *card, h Hint) {
	c.recoveryFailed, c.givenUpAt = true, c.newest
	c.answered = h.At
	l.judgeAll(c, time.Now())
}

// takeOutline lists the ports of a card that cannot be read, unless it could be
// meanwhile.
func (l *loop) takeOutline(ctx context.Context, c *card, r result, now time.Time) {
	delete(l.first, c.address)
	if c.unreadable() == nil || len(c.ports) > 0 || r.err != nil {
		return
	}
	l.update(ctx, c, r, now)
	l.watchClock(c)
}

func (l *loop) succeeded(c *card, r result) {
	if c.recoveryFailed && r.number > c.givenUpAt && r.reading.answers() {
		c.recoveryFailed = false
	}
	if c.failures > 0 {
		l.log.Info("card could be read again", event.ScanRecovered, event.PCI(c.address), event.Count(c.failures))
	}
	c.failures, c.wasRead = 0, true
	c.readable()
}

// answers says whether all of the card that was asked has answered.
func (r Reading) answers() bool {
	for _, p := range r.Units {
		if slices.ContainsFunc(p.Conditions, func(c Condition) bool { return c.Dead }) {
			return false
		}
	}
	return true
}

// update takes in a good reading: ports that went, came and stayed.
func (l *loop) update(ctx context.Context, c *card, r result, now time.Time) {
	l.relate(c, r.reading.PhysFn)
	c.recheck = time.Time{}
	ids, conflicts := c.identify(r.reading.Units)
	ports := make([]*port, len(ids))
	for i, reading := range r.reading.Units {
		if conflicts[i] {
			// Not remembered: as long as two claim it, neither is believed.
			reading.PortIDKnown = false
			reading.Conditions = append(reading.Conditions, Condition{Reason: ReasonPortIDConflict, Health: Unhealthy})
		}
		p := c.byID[ids[i]]
		if p != nil && p.directory != directoryOf(reading) {
			// It left and came back, or another one came, before anybody looked.
			l.leave(ctx, c, p)
			p = nil
		}
		if p == nil {
			p = l.portAt(ids[i], now)
		}
		p.learn(reading, r.family)
		l.recognize(ids[i], c, p)
		ports[i] = p
	}
	l.dropOthers(ctx, c, ids)
	c.keep(ports, ids)
	for i, p := range ports {
		l.judge(c, p, ids[i], now)
	}
	for name, h := range c.nodeHints {
		if c.hasNode(name) {
			l.hintCard(c.address, h)
		}
	}
}

// relate keeps the way from a physical function to its virtual ones.
func (l *loop) relate(c *card, physFn string) {
	if c.physFn == physFn {
		return
	}
	delete(l.virtual[c.physFn], c.address)
	if len(l.virtual[c.physFn]) == 0 {
		delete(l.virtual, c.physFn)
	}
	c.physFn = physFn
	if physFn == "" {
		return
	}
	if l.virtual[physFn] == nil {
		l.virtual[physFn] = make(map[string]bool)
	}
	l.virtual[physFn][c.address] = true
}

// remove takes the devices of a card that is gone off the list. It is forgotten,
// unless somebody has asked for it again.
func (l *loop) remove(ctx context.Context, c *card) {
	if c.want == wantNothing {
		l.forget(ctx, c)
		return
	}
	l.empty(ctx, c)
}

// forget drops a card. Readings of it that are still under way concern nobody.
func (l *loop) forget(ctx context.Context, c *card) {
	l.empty(ctx, c)
	l.uncount(c)
	c.reading = false
	l.watchClock(c)
	delete(l.first, c.address)
	delete(l.cards, c.address)
	l.countUnreadable(c)
}

func (l *loop) empty(ctx context.Context, c *card) {
	l.relate(c, "")
	l.dropOthers(ctx, c, nil)
	c.keep(nil, nil)
	c.wasRead = false
	c.readable()
	c.recheck = time.Time{}
}
