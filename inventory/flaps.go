package inventory

import "time"

// flaps counts how often a device changes between good and bad. A device that does so too often is quarantined, because
// the next container would soon lose it again.
type flaps struct {
	// standing means that the device has been good at some point since it was plugged in. Changes before that don't
	// count, because a newly plugged-in card is unbound at first.
	standing    bool
	good        bool
	at          []time.Time // times of the newest turns, oldest first; at most limit+1
	quarantined bool
}

// take counts a turn if the device was good and is now bad, or the other way round. A device in a recovery hold doesn't
// count as good. take returns the time at which the device's quarantine will end if there are no further turns, or zero
// if the device isn't quarantined.
func (f *flaps) take(now time.Time, good bool, limit int, window time.Duration) (until time.Time) {
	if limit == 0 {
		*f = flaps{}
		return time.Time{}
	}
	switch {
	case !f.standing:
		f.standing, f.good = good, good
	case f.good != good:
		f.good = good
		f.at = append(f.at, now)
	}
	for len(f.at) > 0 && (now.Sub(f.at[0]) >= window || len(f.at) > limit+1) {
		f.at = f.at[1:]
	}
	switch {
	case len(f.at) > limit:
		f.quarantined = true
	case len(f.at) == 0:
		f.quarantined = false
	}
	if !f.quarantined {
		return time.Time{}
	}
	return f.at[len(f.at)-1].Add(window)
}

// deviceLeft handles the device's removal, so that coming back in a different state doesn't count as a turn.
func (f *flaps) deviceLeft() { f.standing = false }

// allowance limits how long passing conditions may make a device unhealthy before that counts as a fault. Passing
// conditions use up the allowance, and it is restored gradually: after a whole flap window, all of it (rules.reprogram)
// is available again. This is enough for a card that is reset now and then, but not for one that is constantly being
// reset.
type allowance struct {
	used    time.Duration // at most rules.reprogram
	at      time.Time     // time of the newest reading; zero if there was none
	running bool          // in the newest reading, a passing condition made the device unhealthy
	began   time.Time     // when the current run of such readings began; zero if there is none
}

// advance brings the allowance up to date and returns how much of it is left. It resets running, so the caller must set
// it again if a passing condition is still present.
func (a *allowance) advance(now time.Time, r rules) time.Duration {
	switch since := now.Sub(a.at); {
	case a.at.IsZero():
	case a.running:
		a.used = min(a.used+since, r.reprogram)
	case r.flapLimit == 0 || since >= r.flapWindow:
		a.used = 0
	default:
		a.used = max(a.used-time.Duration(float64(since)*float64(r.reprogram)/float64(r.flapWindow)), 0)
	}
	a.at, a.running = now, false
	return r.reprogram - a.used
}
