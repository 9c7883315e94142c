package inventory

import (
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// shortage is a period in which readings and listings fail because the daemon or the node is out of
// descriptors or memory ([sysfs.IsShortage]).
type shortage struct {
	since   time.Time // zero: there is no shortage
	last    time.Time // of the newest reading or listing that failed because of it
	listing bool      // the newest listing failed because of it, and must be repeated
}

// noteShortage logs the beginning of a shortage.
func (s *scheduler) noteShortage(err error, now time.Time) {
	s.shortage.last = now
	if s.shortage.since.IsZero() {
		s.shortage.since = now
		s.log.Warn("daemon out of descriptors or memory, devices keep their state", logevent.DaemonStarved, logevent.Err(err))
	}
}
