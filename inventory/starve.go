package inventory

import (
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// shortage is the time in which readings and listings meet the daemon's own
// trouble: it is out of descriptors or memory.
type shortage struct {
	since time.Time // zero: there is none
	last  time.Time // newest reading or listing that met it
}

// starve takes in a reading of a card that met the daemon's own trouble. It says
// nothing about the card, whose last state stays; but a card that could not be
// checked for too long is not known to be healthy. The next health tick reads it
// again.
func (l *loop) starve(c *card, err error, now time.Time) {
	l.noteShortage(err, now)
	if c.starved.IsZero() {
		c.starved = now
	}
	if now.Sub(c.starved) < max(l.cfg.TombstoneGrace, failuresUntilUnhealthy*l.cfg.HealthInterval) {
		return
	}
	c.unchecked = true
	delete(l.first, c.address)
	unprompted(c, func() { l.judgeAll(c, now) })
}

// readable notes that a reading of the card was not held up by the daemon's own
// trouble, or that nothing waits for one.
func (c *card) readable() { c.starved, c.unchecked = time.Time{}, false }

// noteShortage logs the beginning of a shortage.
func (l *loop) noteShortage(err error, now time.Time) {
	l.shortage.last = now
	if l.shortage.since.IsZero() {
		l.shortage.since = now
		l.log.Warn("daemon out of descriptors or memory, devices keep their state", event.DaemonStarved, event.Err(err))
	}
}

// endShortage logs the end of a shortage, which is when every card has been read, and
// the cards listed, since they met it. It is called once per health interval.
func (l *loop) endShortage() {
	if l.shortage.since.IsZero() || l.listAgain {
		return
	}
	for _, c := range l.cards {
		if !c.starved.IsZero() {
			return
		}
	}
	l.log.Info("daemon has descriptors and memory again", event.DaemonRecovered, event.Lasted(l.shortage.last.Sub(l.shortage.since)))
	l.shortage.since = time.Time{}
}
