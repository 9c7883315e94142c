package inventory

import "time"

// turns counts how often a device has turned between good and bad by itself.
// One that turns too often is in quarantine: whoever was given it would lose it
// again.
type turns struct {
	// standing: it has been good since it came. Only then does a change count: a
	// card that is plugged in stands unbound at first.
	standing    bool
	good        bool
	at          []time.Time // of the latest, oldest first; no more than decide
	quarantined bool
}

// take notes whether the device is good now, hold included. While it is in
// quarantine it returns the end of that, if nothing turns any more; else zero.
func (t *turns) take(now time.Time, good bool, limit int, window time.Duration) (until time.Time) {
	if limit == 0 {
		*t = turns{}
		return time.Time{}
	}
	switch {
	case !t.standing:
		t.standing, t.good = good, good
	case t.good != good:
		t.good = good
		t.at = append(t.at, now)
	}
	for len(t.at) > 0 && (now.Sub(t.at[0]) >= window || len(t.at) > limit+1) {
		t.at = t.at[1:]
	}
	switch {
	case len(t.at) > limit:
		t.quarantined = true
	case len(t.at) == 0:
		t.quarantined = false
	}
	if !t.quarantined {
		return time.Time{}
	}
	return t.at[len(t.at)-1].Add(window)
}

// left says that the device is gone: whatever it is when it comes back is no turn.
func (t *turns) left() { t.standing = false }
