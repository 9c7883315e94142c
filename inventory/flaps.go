package inventory

import "time"

// flaps counts the changes of a device between good and bad. A device that changes too often is in
// quarantine, because a container would lose it again.
type flaps struct {
	// standing: the device has been good at some time since it was plugged in. Earlier changes do not count, because a
	// card that is plugged in is unbound at first.
	standing    bool
	good        bool
	at          []time.Time // of the newest turns, oldest first; at most limit+1
	quarantined bool
}

// take updates the turns with the present state of the device, in which recovery holds already count. It returns the
// end of the quarantine if there is no further turn, or zero if there is no quarantine.
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

// left handles the removal of the device: its state when it returns does not count as a turn.
func (f *flaps) left() { f.standing = false }

// allowance is the time for which passing conditions may make a device unhealthy before that counts as a fault. They
// use it up, and each flap window restores rules.reprogram of it. So it is enough for a card that is reset now and
// then, but not for one that is reset all the time.
type allowance struct {
	used    time.Duration // at most rules.reprogram
	at      time.Time     // of the newest reading; zero: there was none
	running bool          // in the newest reading, a passing condition made the device unhealthy
	began   time.Time     // first of the uninterrupted readings in which one did; zero: not in the newest one
}

// left returns how much of the allowance is left now, and forgets whether a passing condition is present.
func (a *allowance) left(now time.Time, r rules) time.Duration {
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
