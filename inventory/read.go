package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// result is one reading that came back.
type result struct {
	card    *card
	family  string
	reading Reading
	err     error // errGone: no family has this card; others: it could not be read
}

var errGone = fmt.Errorf("card is gone: %w", fs.ErrNotExist)

// read starts the reading of a card.
func (l *loop) read(ctx context.Context, c *card) {
	c.want, c.queued = wantNothing, wantNothing
	c.reading, c.stuck, c.started = true, false, time.Now()
	c.answered, c.hinted = c.hinted, time.Time{}
	l.timed[c] = true
	l.readers.Go(func() {
		r := l.readCard(c.address)
		r.card = c
		select {
		case l.results <- r:
		case <-ctx.Done():
		}
	})
}

// readCard asks the families in turn. It runs outside the loop and touches
// nothing of it.
func (inv *Inventory) readCard(address string) result {
	var trouble error
	empty := result{err: errGone}
	for _, f := range inv.families {
		reading, err := f.Read(inv.host, address)
		switch {
		case err == nil && len(reading.Ports) > 0:
			return result{family: f.Name(), reading: reading}
		case err == nil:
			empty = result{family: f.Name(), reading: reading}
		case !vanished(err):
			trouble = errors.Join(trouble, fmt.Errorf("%s: %w", f.Name(), err))
		}
	}
	if trouble != nil {
		return result{err: trouble}
	}
	return empty
}

// vanished says whether err means that the card went, perhaps while being read.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// absorb takes in a reading that came back, late or not.
func (l *loop) absorb(r result) {
	c, now := r.card, time.Now()
	l.readingEnded(c, now)
	switch {
	case errors.Is(r.err, errGone):
		l.remove(c)
	case r.err != nil:
		l.failed(c, r.err, now)
	default:
		l.succeeded(c)
		l.update(c, r, now)
	}
	delete(l.first, c.address)
	l.queue(c) // it may have been asked for again meanwhile
}

func (l *loop) readingEnded(c *card, now time.Time) {
	if c.stuck {
		l.log.Info("reading came back", event.ReadRecovered, event.PCI(c.address), event.Lasted(now.Sub(c.started)))
	} else if c.counted {
		l.busy--
	}
	c.reading, c.stuck, c.counted = false, false, false
	l.watchClock(c)
}

// watchClock keeps the set of cards for which the clock matters.
func (l *loop) watchClock(c *card) {
	if c.recheck.IsZero() && !c.reading {
		delete(l.timed, c)
	} else {
		l.timed[c] = true
	}
}

// stick declares the reading under way overdue: nobody waits for it any longer.
func (l *loop) stick(c *card, now time.Time) {
	c.stuck = true
	if c.counted {
		l.busy--
		c.counted = false
	}
	delete(l.first, c.address)
	l.log.Warn("reading timed out", event.ReadTimeout, event.PCI(c.address), event.Lasted(now.Sub(c.started)))
	for _, p := range c.ports {
		l.judge(c, p, p.device.ID, now, Condition{Reason: ReasonReadTimeout, Health: Unhealthy})
	}
	l.watchClock(c)
}

// failed counts a reading that failed. What was known stays for a while: a card
// that cannot be read is not a card that is gone.
func (l *loop) failed(c *card, err error, now time.Time) {
	c.failures++
	log := l.log.Debug
	if c.failures == 1 || c.failures == failuresUntilUnhealthy {
		log = l.log.Warn
	}
	log("card could not be read", event.ScanFailed, event.PCI(c.address), event.Count(c.failures), event.Err(err))
	if c.failures < failuresUntilUnhealthy {
		return
	}
	for _, p := range c.ports {
		l.judge(c, p, p.device.ID, now, Condition{Reason: ReasonScanFailed, Health: Unhealthy})
	}
	l.watchClock(c)
}

func (l *loop) succeeded(c *card) {
	if c.failures > 0 {
		l.log.Info("card could be read again", event.ScanRecovered, event.PCI(c.address), event.Count(c.failures))
	}
	c.failures = 0
}

// update takes in a good reading: ports that went, came and stayed.
func (l *loop) update(c *card, r result, now time.Time) {
	l.relate(c, r.reading.PhysFn)
	c.recheck = time.Time{}
	ids, doubles := c.identify(r.reading.Ports)
	ports := make([]*port, len(ids))
	for i, reading := range r.reading.Ports {
		if doubles[i] {
			reading.Conditions = append(reading.Conditions, Condition{Reason: ReasonPortIDConflict, Health: Unhealthy})
		}
		p := c.port(ids[i])
		if p == nil {
			p = &port{portID: -1}
		}
		p.learn(reading, r.family)
		ports[i] = p
	}
	l.dropOthers(c, ids)
	c.ports = ports
	for i, p := range ports {
		l.judge(c, p, ids[i], now)
	}
	l.watchClock(c)
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

// remove forgets a card and its devices.
func (l *loop) remove(c *card) {
	l.relate(c, "")
	l.dropOthers(c, nil)
	c.ports, c.recheck = nil, time.Time{}
	l.watchClock(c)
	if c.want == wantNothing {
		delete(l.cards, c.address)
	}
}
