package inventory

import (
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// shortage is a period during which readings and listings fail because the daemon or the node is out of file
// descriptors or memory ([sysfs.IsShortage]).
type shortage struct {
	since   time.Time // zero outside a shortage
	last    time.Time // time of the newest reading or listing that failed because of it
	listing bool      // the newest listing failed because of it and must be repeated
}

// noteShortage logs the start of a shortage.
func (s *scheduler) noteShortage(err error, now time.Time) {
	s.shortage.last = now
	if s.shortage.since.IsZero() {
		s.shortage.since = now
		s.log.Warn("out of file descriptors or memory, devices keep their state", logevent.DaemonStarved, logevent.Err(err))
	}
}

// starve handles a reading that failed because of a shortage. The error says nothing about the card, so the card keeps
// its last state. If the card goes too long without a reading, its devices become unhealthy, because there is no
// telling whether they still work. The card is read again at the next health tick.
func (s *scheduler) starve(j *job, err error, now time.Time) {
	s.noteShortage(err, now)
	if j.starved.IsZero() {
		j.starved = now
	}
	if now.Sub(j.starved) >= max(s.cfg.TombstoneGrace, failuresUntilUnhealthy*s.cfg.HealthInterval) {
		j.unchecked = true
		delete(s.first, j.address)
		s.report(j, outcome{})
	}
}
