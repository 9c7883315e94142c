package inventory

import (
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// shortage is a time in which readings and listings meet the daemon's own trouble: it is
// out of descriptors or memory.
type shortage struct {
	since time.Time // zero: there is none
	last  time.Time // newest reading or listing that met it
}

// starve handles a reading of a card that met the daemon's own trouble. Such a reading is
// no finding about the card, so the card keeps its last state. After too long without a
// reading its devices become unhealthy, because they are not known to be healthy. The next
// health tick reads the card again.
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

// readable ends the starved state of the card: a reading had another result, or no result
// is expected any more.
func (c *card) readable() { c.starved, c.unchecked = time.Time{}, false }

// noteShortage logs the beginning of a shortage.
func (l *loop) noteShortage(err error, now time.Time) {
	l.shortage.last = now
	if l.shortage.since.IsZero() {
		l.shortage.since = now
		l.log.Warn("daemon out of descriptors or memory, devices keep their state", event.DaemonStarved, event.Err(err))
	}
}

// endShortage logs the end of a shortage if, since then, every card that met it has been
// read and the cards have been listed. It is called once per health interval.
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
