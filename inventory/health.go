package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// ailment is a condition as it is remembered: bad news counts at once, and goes
// on counting until it has been gone for the hold time.
type ailment struct {
	Condition
	since  time.Time // first reading of the present spell
	healed time.Time // first good reading after it; zero while it lasts
	worst  Health    // that it made the device in this spell
}

// health remembers what was wrong with one device.
type health struct {
	ailments map[string]*ailment // by reason
	// offered: this device was published as healthy or degraded once. Only then
	// does good news wait: a port that has just appeared stands unbound for some
	// milliseconds before its driver binds, and nobody was told otherwise yet.
	offered bool
	turns   turns
}

// rules are the times and limits that health is judged by.
type rules struct {
	hold       time.Duration // how long good news must have held
	reprogram  time.Duration // how long a passing condition is only what it says
	flapLimit  int           // turns within flapWindow that are borne; 0: any number
	flapWindow time.Duration
}

// verdict is the judgement of one reading.
type verdict struct {
	health  Health
	reasons []string
	// recheck is when time alone may change the verdict; zero: never. The card
	// is read again then: good news is believed only from a fresh reading.
	recheck time.Time
}

// judge takes in the conditions of one reading and says how the device is.
func (h *health) judge(now time.Time, read []Condition, r rules) verdict {
	h.note(now, read)
	h.forget(now, r.hold)

	var v verdict
	var hardware Health // what the device is by itself
	for _, a := range h.ailments {
		switch {
		case !a.healed.IsZero():
			v.at(a.healed.Add(r.hold), now)
		case a.Passing:
			v.at(a.since.Add(r.reprogram), now)
		}
		weight := a.weight(now, r.reprogram)
		v.health = max(v.health, weight)
		if !ReasonOf(a.Reason).Administrative {
			hardware = max(hardware, weight)
		}
	}
	v.reasons = h.reasons(now, r.reprogram)
	if until := h.turns.take(now, hardware != Unhealthy, r.flapLimit, r.flapWindow); !until.IsZero() {
		v.health, v.reasons = Unhealthy, slices.Insert(v.reasons, 0, ReasonFlapping)
		v.at(until, now)
	}
	if v.health != Unhealthy {
		h.offered = true
	}
	return v
}

// forgive forgets reasons for which the hardware need not recover.
func (h *health) forgive(reasons ...string) {
	for _, reason := range reasons {
		delete(h.ailments, reason)
	}
}

// overrule makes what is wrong, or was, count for no more than the operator says
// from now on. That is no good news of the hardware, and waits for nothing.
func (h *health) overrule(p Policy) {
	for reason, a := range h.ailments {
		switch severity := p.severity(a.Condition); severity {
		case Healthy:
			delete(h.ailments, reason)
		case a.Condition.Health: // nothing new about this one; it may have become worse by lasting
		default:
			a.worst = min(a.worst, severity)
		}
	}
}

// returned says that the device is back after it had left for this reason. That
// is over now; whatever else was wrong with it then is to be seen afresh.
func (h *health) returned(now time.Time, reason string) {
	h.turns.left()
	h.ailments = map[string]*ailment{reason: {
		Condition: Condition{Reason: reason, Health: Unhealthy}, since: now, healed: now, worst: Unhealthy,
	}}
}

// note records which conditions hold now, which have begun and which are over.
func (h *health) note(now time.Time, read []Condition) {
	for _, a := range h.ailments {
		if a.healed.IsZero() && !slices.ContainsFunc(read, func(c Condition) bool { return c.Reason == a.Reason }) {
			a.healed = now
		}
	}
	for _, c := range read {
		a := h.ailments[c.Reason]
		switch {
		case a == nil:
			if h.ailments == nil {
				h.ailments = make(map[string]*ailment)
			}
			h.ailments[c.Reason] = &ailment{Condition: c, since: now}
		case !a.healed.IsZero():
			*a = ailment{Condition: c, since: now}
		default:
			a.Condition = c
		}
	}
}

// forget drops what has been over for the hold time.
func (h *health) forget(now time.Time, hold time.Duration) {
	for reason, a := range h.ailments {
		if !a.healed.IsZero() && (!h.offered || now.Sub(a.healed) >= hold) {
			delete(h.ailments, reason)
		}
	}
}

// weight is how bad the device is because of a. What is over weighs as much as
// it did at its worst, until it is forgotten.
func (a *ailment) weight(now time.Time, reprogram time.Duration) Health {
	switch {
	case !a.healed.IsZero():
	case a.Passing && now.Sub(a.since) >= reprogram:
		a.worst = Unhealthy
	default:
		a.worst = max(a.worst, a.Condition.Health)
	}
	return a.worst
}

// reasons lists what is wrong, worst first, then what is over but held.
func (h *health) reasons(now time.Time, reprogram time.Duration) []string {
	var present []*ailment
	var over []string
	for _, a := range h.ailments {
		if a.healed.IsZero() {
			present = append(present, a)
			continue
		}
		// The value is left out: it was read in the past, and may not be repeated
		// as if it were true.
		name, _, _ := strings.Cut(a.Reason, "=")
		over = append(over, ReasonRecovering+"="+name)
	}
	slices.SortFunc(present, func(a, b *ailment) int {
		return cmp.Or(cmp.Compare(b.weight(now, reprogram), a.weight(now, reprogram)), cmp.Compare(a.Reason, b.Reason))
	})
	var all []string
	for _, a := range present {
		all = append(all, a.Reason)
	}
	slices.Sort(over)
	return append(all, slices.Compact(over)...)
}

// at asks for a recheck at t, if that is the earliest yet to come.
func (v *verdict) at(t, now time.Time) {
	if t.After(now) && (v.recheck.IsZero() || t.Before(v.recheck)) {
		v.recheck = t
	}
}
