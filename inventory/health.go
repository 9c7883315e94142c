package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// health tracks the conditions of one device.
type health struct {
	conditions map[string]*tracked // by reason
	// offered means that the device has been published as healthy or degraded. The recovery hold applies only after
	// that, because a new port is always unbound for a few milliseconds until its driver binds.
	offered   bool
	allowance allowance
	flaps     flaps
}

// tracked is a condition that a device has now or had recently. We track it from the first reading that shows it until
// it has been absent for the whole recovery hold.
type tracked struct {
	Condition
	present bool      // in the latest reading
	since   time.Time // when the latest unbroken run of readings with the condition began
	healed  time.Time // time of the first reading without the condition; zero while it is present
	worst   Health    // worst severity since the condition began
	limit   time.Time // when it becomes overdue, if it is a passing condition that persists
	overdue bool      // it is a passing condition that has lasted too long
}

// rules holds the durations and limits from [Config] that the node applies.
type rules struct {
	hold       time.Duration // how long a device must stay healthy before it is offered again
	reprogram  time.Duration // how long a passing condition counts as normal
	flapLimit  int           // turns allowed within flapWindow; 0 means any number
	flapWindow time.Duration

	unnamed  time.Duration // how long a device may go without a name before that is logged
	grace    time.Duration // how long a reservation lasts without an answer about holders
	interval time.Duration // time between queries for holders
}

// verdict is a device's health according to one reading.
type verdict struct {
	health  Health
	reasons []string
	fault   bool   // as in [Device]
	cause   string // as in [Device]
	// recheck is the time at which the verdict may change even without a new condition, or zero if it can't change. The
	// card is read again at that time, because only a new reading makes a device healthy.
	recheck time.Time
}

// judge returns the device's health after a reading that found the conditions in read. In the verdict, the reasons for
// current conditions come first, from the worst to the mildest, followed by the reasons for past conditions.
func (h *health) judge(now time.Time, read []Condition, r rules) verdict {
	h.track(now, read, r)
	var v verdict
	hardware := Healthy // ignoring administrative reasons and passing conditions
	var present, problems []*tracked
	var former []*tracked // problems that are over
	var over []string
	for reason, t := range h.conditions {
		if t.present {
			present = append(present, t)
		} else { // leave out the value, because it is no longer current
			name, _, _ := strings.Cut(reason, "=")
			over = append(over, ReasonRecovering+"="+name)
		}
		v.health = max(v.health, t.worst)
		v.recheckAt(now, t.until(r))
		if t.present && t.overdue && h.short(t, now, r) {
			v.recheckAt(now, h.allowance.began.Add(r.reprogram))
		}
		if !ReasonOf(reason).Administrative && (!t.Passing || t.overdue) {
			hardware = max(hardware, t.worst)
			switch {
			case ReasonOf(reason).Tombstone || h.short(t, now, r):
			case t.present:
				problems = append(problems, t)
			case t.worst == Unhealthy:
				former = append(former, t)
			}
		}
	}
	if len(problems) > 0 {
		compare := func(a, b *tracked) int {
			return cmp.Or(cmp.Compare(b.worst, a.worst), compareSteps(a.Reason, b.Reason), cmp.Compare(a.Reason, b.Reason))
		}
		worst := slices.MinFunc(problems, compare)
		v.cause, v.fault = worst.Reason, worst.worst == Unhealthy
		if v.fault && IsRemovalStep(v.cause) { // the cause may be an error counter that rose in an earlier reading
			v.cause = slices.MinFunc(append(former, worst), compare).Reason
		}
	}
	slices.SortFunc(present, func(a, b *tracked) int {
		return cmp.Or(cmp.Compare(b.worst, a.worst), cmp.Compare(a.Reason, b.Reason))
	})
	for _, t := range present {
		v.reasons = append(v.reasons, t.Reason)
	}
	slices.Sort(over)
	v.reasons = append(v.reasons, slices.Compact(over)...)
	if until := h.flaps.take(now, hardware != Unhealthy, r.flapLimit, r.flapWindow); !until.IsZero() {
		v.health, v.reasons = Unhealthy, slices.Insert(v.reasons, 0, ReasonFlapping)
		v.recheckAt(now, until)
	}
	h.offered = h.offered || v.health != Unhealthy
	return v
}

// track updates the tracked conditions from one reading, and forgets those that ended longer ago than the recovery
// hold.
func (h *health) track(now time.Time, read []Condition, r rules) {
	left := h.allowance.advance(now, r)
	if h.conditions == nil && len(read) > 0 {
		h.conditions = make(map[string]*tracked, len(read))
	}
	for _, t := range h.conditions {
		t.present = false
	}
	for _, c := range read {
		t := h.conditions[c.Reason]
		if t == nil || !t.healed.IsZero() {
			t = &tracked{since: now}
			h.conditions[c.Reason] = t
		}
		t.Condition, t.present = c, true
		h.allowance.running = h.allowance.running || c.Passing && c.Health == Unhealthy
	}
	switch {
	case !h.allowance.running:
		h.allowance.began = time.Time{}
	case h.allowance.began.IsZero():
		h.allowance.began = now
	}
	for reason, t := range h.conditions {
		t.update(now, left, r)
		if !t.present && (!h.offered || ReasonOf(reason).NoHold || now.Sub(t.healed) >= r.hold) {
			delete(h.conditions, reason)
		}
	}
}

// short reports whether a passing condition is overdue only because earlier ones used up the allowance, and not because
// it has lasted too long itself. Such a condition counts as a turn but not as a fault, because the earlier ones may
// have been caused by another container that reset the card.
func (h *health) short(t *tracked, now time.Time, r rules) bool {
	return t.Passing && t.Health == Unhealthy && now.Before(h.allowance.began.Add(r.reprogram))
}

// update updates a condition's severity and times, whether the condition is present or past.
func (t *tracked) update(now time.Time, left time.Duration, r rules) {
	t.limit = t.since.Add(r.reprogram)
	if t.Health == Unhealthy {
		t.limit = now.Add(left)
	}
	switch {
	case t.present && t.Passing && !now.Before(t.limit):
		t.worst, t.overdue = Unhealthy, true
	case t.present:
		t.worst = max(t.worst, t.Health)
	case t.healed.IsZero():
		t.healed = now
	}
}

// until returns the time at which the condition will be forgotten or become overdue, or zero if that isn't known.
func (t *tracked) until(r rules) time.Time {
	switch {
	case !t.present:
		return t.healed.Add(r.hold)
	case t.Passing && !t.overdue:
		return t.limit
	}
	return time.Time{}
}

// recheckAt schedules a reading at t, unless t is already past.
func (v *verdict) recheckAt(now, t time.Time) {
	if t.After(now) {
		v.recheck = earlier(v.recheck, t)
	}
}

// clear removes a condition immediately, without a recovery hold.
func (h *health) clear(reason string) { delete(h.conditions, reason) }

// overrule lowers the severities of all conditions, present or past, to those in the policy. read contains the
// conditions from the last reading, with the severities their families gave them. The hardware hasn't changed, so there
// is no recovery hold.
func (h *health) overrule(read []Condition, p Policy) {
	for reason, t := range h.conditions {
		c := t.Condition
		if i := slices.IndexFunc(read, func(c Condition) bool { return c.Reason == reason }); i >= 0 {
			c = read[i]
		}
		switch severity := p.severity(c); severity {
		case Healthy:
			delete(h.conditions, reason)
		case t.Health: // unchanged; a passing condition keeps its worst severity
		default:
			t.worst = min(t.worst, severity)
		}
	}
}

// returned is called when a device has come back. It replaces all of the device's conditions with a single one that has
// the reservation's reason. That condition has just ended, so the recovery hold begins now.
func (h *health) returned(now time.Time, reason string) {
	h.flaps.deviceLeft()
	h.allowance = allowance{}
	h.conditions = map[string]*tracked{reason: {
		Condition: Condition{Reason: reason, Health: Unhealthy}, since: now, healed: now, worst: Unhealthy,
	}}
}
