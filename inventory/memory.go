package inventory

import (
	"slices"
	"strings"
	"time"
)

// Memory is the part of a device's health that survives a restart of the daemon.
type Memory struct {
	Turns       []time.Time `json:"turns,omitempty"` // see [Config.FlapLimit]; oldest first
	Quarantined bool        `json:"quarantined,omitempty"`
	Bad         bool        `json:"bad,omitempty"`   // the device was good before it became bad, so its next recovery is a turn
	Holds       []Hold      `json:"holds,omitempty"` // sorted by reason, without administrative reasons
}

// Hold is a recovery hold in progress, or a condition that is still present and will start one when it clears.
type Hold struct {
	Reason string    `json:"reason"`
	Health Health    `json:"health"`         // worst severity of the condition
	Since  time.Time `json:"since,omitzero"` // when the condition ended; zero if it is still present
	// Passing is when a passing condition began. It is zero for other conditions, and for a passing condition that
	// lasted too long before it cleared.
	Passing time.Time `json:"passing,omitzero"`
}

// memory returns what the next daemon needs to know about the device's health, or nil if there is nothing to know.
func (h *health) memory() *Memory {
	var holds []Hold
	for reason, t := range h.conditions {
		// A device that wasn't offered doesn't need a hold. But remember a reset that is taking too long, because it
		// must still count as a fault after a restart.
		late := t.present && t.Passing && t.overdue
		if of := ReasonOf(reason); (h.offered || late) && !of.Administrative && !of.NoHold {
			hold := Hold{Reason: reason, Health: t.worst, Since: t.healed}
			if t.Passing && (t.present || !t.overdue) {
				hold.Passing = t.since
			}
			holds = append(holds, hold)
		}
	}
	bad := h.flaps.standing && !h.flaps.good
	if len(h.flaps.at) == 0 && len(holds) == 0 && !bad {
		return nil
	}
	slices.SortFunc(holds, func(a, b Hold) int { return strings.Compare(a.Reason, b.Reason) })
	return &Memory{Turns: slices.Clone(h.flaps.at), Quarantined: h.flaps.quarantined, Bad: bad, Holds: holds}
}

// recall restores what an earlier daemon remembered about the entry's device. It does so only once, and discards the
// memory if d is a different device.
func (n *node) recall(e *entry, d *Device, now time.Time) {
	was := n.past[e.id]
	if was == nil || d.PCIID == "" && was.PCIID != "" { // not known yet
		return
	}
	delete(n.past, e.id)
	serial, known := d.Attributes[AttributeSerialNumber], was.Attributes[AttributeSerialNumber]
	if was.Memory == nil || identityOf(was).compare(identityOf(d), true) == different || serial != known && serial != "" && known != "" {
		return
	}
	e.health.recall(was.Memory, now, n.rules)
	e.health.overrule(e.unit.conditions, n.policy) // the earlier daemon may have had other severities
}

// forget drops the history of a card's absent devices.
func (n *node) forget(card string) {
	for id := range n.past {
		if cardOf(id) == card {
			delete(n.past, id)
		}
	}
	for id, e := range n.entries {
		if e.unit == nil && cardOf(id) == card {
			e.health.flaps, e.health.allowance = flaps{}, allowance{}
		}
	}
}

// recall resumes the quarantine and any holds that haven't ended. If the device was bad, its recovery counts as a turn,
// even if it happened while no daemon was running. Otherwise the device's first state doesn't count as a turn, just as
// when a device comes back.
func (h *health) recall(m *Memory, now time.Time, r rules) {
	for _, t := range m.Turns {
		h.flaps.at = append(h.flaps.at, agoIn(now, t))
	}
	h.flaps.quarantined = m.Quarantined
	var recovered time.Time // zero if it wasn't bad, or still is
	for _, hold := range m.Holds {
		t := &tracked{Condition: Condition{Reason: hold.Reason, Health: hold.Health, Passing: !hold.Passing.IsZero()}, since: now, worst: hold.Health}
		present, bad := hold.Since.IsZero(), m.Bad && hold.Health == Unhealthy
		if !present {
			t.healed = agoIn(now, hold.Since)
			bad = bad && !t.Passing
		} else if t.Passing {
			t.since = agoIn(now, hold.Passing)
			bad = bad && now.Sub(t.since) >= r.reprogram
			longest := earlier(h.allowance.began, t.since)
			h.allowance = allowance{used: min(now.Sub(longest), r.reprogram), at: now, began: longest}
		}
		if end := t.healed.Add(r.hold); !present && !end.After(now) {
			if bad && end.After(recovered) {
				recovered = end
			}
			continue
		}
		if h.conditions == nil {
			h.conditions = make(map[string]*tracked, len(m.Holds))
		}
		h.conditions[hold.Reason] = t
		h.offered, h.flaps.standing = true, h.flaps.standing || bad
	}
	if f := &h.flaps; !recovered.IsZero() && !f.standing {
		f.standing, f.good = true, false
		f.take(recovered, false, r.flapLimit, r.flapWindow) // a quarantine may have ended in the meantime
		f.take(recovered, true, r.flapLimit, r.flapWindow)
		f.deviceLeft()
	}
	h.offered = h.offered || h.flaps.quarantined // it was offered before the quarantine
}

// agoIn converts a time from another process to a time that stays correct when the clock is set. If t is in the future,
// the clock must have been set back since, so agoIn returns now.
func agoIn(now, t time.Time) time.Time { return now.Add(-max(now.Round(0).Sub(t), 0)) }
