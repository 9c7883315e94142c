package ledger

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
)

// observe records what has changed since the previous snapshot. Unchanged cards cost next to nothing.
func (l *Ledger) observe(s inventory.Snapshot, now time.Time) {
	if s.Version == l.last.Version {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := inventory.Changes(l.last.Devices, s.Devices)
	listed := make(map[string][]*inventory.Device) // current devices of the cards that have changed
	for _, c := range changes {
		if inventory.IsAddress(c.ID) {
			listed[cardOf(c.ID)] = nil
		}
	}
	for _, d := range s.Devices {
		if devices, changed := listed[cardOf(d.ID)]; changed && !hasLeft(d) {
			listed[cardOf(d.ID)] = append(devices, d)
		}
	}
	for address, devices := range listed {
		if c := l.cards[address]; len(devices) > 0 {
			l.found(address, devices, now)
		} else if c != nil && c.present {
			l.removed(c, s, now)
		}
	}
	before := make(map[string]inventory.Health)
	for address, devices := range listed {
		before[address] = l.worst(devices)
	}
	turned := make(map[string]int)
	for _, c := range changes {
		if l.deviceChanged(c, now) {
			turned[cardOf(c.ID)]++
		}
	}
	for address, n := range turned { // a card that breaks counts once, no matter how many ports it has
		if c := l.cards[address]; l.worst(listed[address]) != before[address] {
			c.count(n)
			l.changed = true
		}
	}
	l.last = s
	if first := s.Complete && !l.complete; first || l.changed {
		if first {
			l.readAll(now)
		}
		l.publish()
	}
}

// removed records that a card has left while it was being watched. A mode change doesn't count as a removal. Usually,
// someone has pulled the card. But if the card had been faulty for a while, it has probably failed completely, so it is
// missing or, if it is still on the bus and has only lost its driver, still expected.
func (l *Ledger) removed(c *card, s inventory.Snapshot, now time.Time) {
	failed := false
	if s.Complete && l.last.Complete && s.Generation == l.last.Generation {
		c.Removals++
		c.removals++
		c.Removed = timeOf(now)
		c.takeBack(now)
		failed = c.Expected && !c.faulty.IsZero() && now.Sub(c.faulty) >= settle
	}
	c.present, c.Last, c.Expected, c.Devices, c.faulty, l.changed = false, timeOf(now), failed, nil, time.Time{}, true
	if failed && l.isLate(c) {
		l.look = true
	} else if failed {
		c.Missing, c.reported = timeOf(now), true
		l.log.Error("card left after a fault and is missing", logevent.DeviceMissing, logevent.Device(c.Card))
	}
}

// count counts the n newest changes in c.Recent, which were found at the same time, as one change in the card's health,
// and marks the worst of them.
func (c *card) count(n int) {
	newest := c.Recent[max(len(c.Recent)-n, 0):]
	worst := max(slices.IndexFunc(newest, HealthChange.isFailure), 0)
	newest[worst].OfCard = true
	c.Changes++
	c.changes++
	if newest[worst].isFailure() {
		c.Failures++
	}
}

func (t HealthChange) isFailure() bool { return t.To == inventory.Unhealthy.String() }

// note records a change in a device's health. t.Reason is a hardware problem or "".
func (c *card) note(t HealthChange, now time.Time) {
	c.Recent = append(c.Recent[max(len(c.Recent)+1-maxRecent, 0):], t)
	switch {
	case !inventory.IsRemovalStep(t.Reason):
		c.steps = 0
		return
	case now.Sub(c.stepsFrom) >= settle:
		c.steps = 0
	}
	if c.steps == 0 {
		c.stepsFrom = now
	}
	c.steps = min(c.steps+1, maxRecent)
}

// explain handles a new problem with a device that is already unhealthy. If the problem recorded before may have been a
// removal step, explain replaces it with the new one, which is the real reason, and returns true.
func (c *card) explain(d *inventory.Device, now time.Time) bool {
	if c.steps == 0 || now.Sub(c.stepsFrom) >= settle || !d.Fault || inventory.IsRemovalStep(d.Cause) {
		return false
	}
	for i := len(c.Recent) - 1; i >= len(c.Recent)-c.steps; i-- {
		if c.Recent[i].Device == d.ID {
			c.Recent = slices.Clone(c.Recent) // the writer may be reading it
			c.Recent[i].Reason, c.steps = clean(d.Cause), 0
			return true
		}
	}
	return false
}

// doubtful returns how many of the counted changes may just be removal steps. The metric can't include them yet,
// because a counter must not decrease.
func (c *card) doubtful(now time.Time) (n int) {
	if now.Sub(c.stepsFrom) >= settle {
		return 0
	}
	for _, t := range c.Recent[len(c.Recent)-c.steps:] {
		if t.OfCard {
			n++
		}
	}
	return n
}

// takeBack deletes the changes that were recorded while the card was being removed. Before the kernel removes a card,
// it unbinds the card's drivers, which takes milliseconds, or seconds if a driver has to wait. A fault that has lasted
// for settle or longer was there before the removal, so it is kept.
func (c *card) takeBack(now time.Time) {
	if now.Sub(c.stepsFrom) < settle {
		first := len(c.Recent) - c.steps
		for _, t := range c.Recent[first:] {
			if t.OfCard {
				c.Changes, c.changes = c.Changes-1, c.changes-1
			}
			if t.OfCard && t.isFailure() {
				c.Failures--
			}
		}
		c.Recent = slices.Clone(c.Recent[:first])
	}
	c.steps = 0
}

const missingReturned = "missing card returned"

// found records that the card at the address is present. listed contains the card's devices.
func (l *Ledger) found(address string, listed []*inventory.Device, now time.Time) {
	is, anyPCI, faulty := card{Card: address}, false, false
	for _, d := range listed {
		is.PCIID, is.Serial, is.Family = cmp.Or(is.PCIID, clean(d.PCIID)), cmp.Or(is.Serial, serialOf(d)), clean(d.Family)
		is.Expected = is.Expected || isExpected(d)
		anyPCI = anyPCI || d.AnyPCIID
		faulty = faulty || d.Fault || slices.Contains(d.Reasons, inventory.ReasonFlapping)
	}
	c, returned := l.cards[address], missingReturned
	switch {
	case c == nil:
		if !l.makeRoom(is.Expected) {
			return
		}
		c, l.look = &card{Card: address, First: timeOf(now), Last: timeOf(now)}, true
	case differ(c.PCIID, is.PCIID) && !anyPCI, differ(c.Serial, is.Serial):
		former := *c
		former.Expected, former.Missing, former.Recent, former.Devices, former.Former = false, time.Time{}, nil, nil, nil
		c = &card{
			Card: address, First: timeOf(now), Last: timeOf(now), Missing: c.Missing, Former: &former,
			before: c.before, changes: c.changes, removals: c.removals,
		}
		returned = "another card is in the slot of a missing one"
	}
	if is.PCIID == "" && c.PCIID != "" { // the card hasn't been read yet, so it may be a virtual function
		is.Expected = is.Expected && c.Expected
	}
	before := *c
	c.PCIID, c.Serial, c.Family, c.Expected, c.present = cmp.Or(is.PCIID, c.PCIID), cmp.Or(is.Serial, c.Serial), is.Family, is.Expected, true
	c.late = time.Time{}
	l.returned(c, returned, now)
	l.changed = l.changed || !reflect.DeepEqual(before, *c)
	switch {
	case !faulty:
		c.faulty = time.Time{}
	case c.faulty.IsZero():
		if c.faulty = now; !before.present && slices.ContainsFunc(slices.Collect(maps.Values(c.Devices)), func(m *inventory.Memory) bool { return m.Bad }) {
			c.faulty = now.Add(-settle) // the card was already bad when the previous daemon exited
		}
	}
	l.cards[address] = c
}

// moved reports whether an absent card is now at a different address, and if so, moves the card's history there.
func (l *Ledger) moved(c *card, now time.Time) bool {
	if c.Serial == "" {
		return false
	}
	for _, is := range l.sorted() {
		if is.present && !is.before && is.Serial == c.Serial && is.PCIID == c.PCIID {
			l.returned(c, "missing card is at another address", now)
			is.follow(c)
			delete(l.cards, c.Card)
			l.changed = true
			return true
		}
	}
	return false
}

// follow adds the history in was, an earlier entry, to c, unless was is for a different card.
func (c *card) follow(was *card) {
	if differ(was.PCIID, c.PCIID) || differ(was.Serial, c.Serial) {
		return
	}
	c.First, c.Changes, c.Removals, c.before = was.First, c.Changes+was.Changes, c.Removals+was.Removals, true
	c.Failures += was.Failures
	if was.Removed.After(c.Removed) {
		c.Removed = was.Removed
	}
	recent := append(slices.Clone(was.Recent), c.Recent...) // the writer may be reading it
	for i := range was.Recent {
		recent[i].Device = c.Card + strings.TrimPrefix(recent[i].Device, was.Card)
	}
	c.Recent = recent
	c.Recent = c.Recent[max(len(c.Recent)-maxRecent, 0):]
}

// differ reports whether a and b are both known and differ.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// returned records that a card is no longer missing. It does nothing if the card wasn't missing.
func (l *Ledger) returned(c *card, message string, now time.Time) {
	if c.Missing.IsZero() {
		return
	}
	l.log.Info(message, logevent.DeviceReturned, logevent.Device(c.Card), logevent.Lasted(max(now.Sub(c.Missing), 0)))
	c.Missing, c.reported, l.changed = time.Time{}, false, true
}

// readAll records that all cards have been read.
func (l *Ledger) readAll(now time.Time) {
	l.complete = true
	for _, c := range l.sorted() {
		if !c.present && l.isLate(c) {
			l.returned(c, missingReturned, now)
		}
	}
}

// isLate reports whether an absent card is still on the bus, in which case only its driver is late.
func (l *Ledger) isLate(c *card) bool { return l.cfg.OnBus != nil && l.cfg.OnBus(c.Card, c.PCIID) }

// makeRoom forgets a card if the ledger is full. If the new card is expected, it can replace any card that is absent or
// isn't expected. Otherwise, it can only replace a card that is absent and isn't expected. makeRoom returns false if
// there is no such card.
func (l *Ledger) makeRoom(expected bool) bool {
	if len(l.cards) < maxCards {
		return true
	}
	others := slices.DeleteFunc(slices.Collect(maps.Values(l.cards)), func(c *card) bool {
		return c.present && c.Expected || !expected && (c.present || c.Expected)
	})
	if len(others) == 0 {
		return false
	}
	delete(l.cards, slices.MinFunc(others, func(a, b *card) int { return byWant(*a, *b) }).Card)
	return true
}

// worst returns the devices' worst known health.
func (l *Ledger) worst(devices []*inventory.Device) (worst inventory.Health) {
	for _, d := range devices {
		worst = max(worst, l.known[d.ID])
	}
	return worst
}

// deviceChanged records what a change to a device means for its card. It reports whether the device's health has
// changed.
func (l *Ledger) deviceChanged(change inventory.Change, now time.Time) bool {
	d, c := change.New, l.cards[cardOf(change.ID)]
	if d == nil || hasLeft(d) || c == nil || !c.present {
		delete(l.known, change.ID)
		if c != nil {
			l.remember(c, change.ID, nil)
		}
		return false
	}
	if d.PCIID != "" || c.PCIID == "" { // otherwise the inventory hasn't recalled the device yet
		l.remember(c, d.ID, memoryOf(d))
	}
	was, known := l.known[d.ID]
	is, bad := d.Health, d.Memory != nil && d.Memory.Bad
	switch {
	case is == inventory.Unhealthy && !d.Fault && !bad && slices.Contains(d.Reasons, inventory.ReasonFlapping):
		is = inventory.Healthy // ignore the quarantine
		if d.Cause != "" {
			is = inventory.Degraded
		}
	case is == inventory.Unhealthy && (!known || !d.Fault):
		// Don't record this as a change. Either the device is recovering, cordoned or being programmed, which says
		// nothing new about the hardware, or it is just being plugged in, or it was already bad when the previous
		// daemon exited.
		if !known && bad {
			l.known[d.ID] = inventory.Unhealthy
		}
		return false
	case is == inventory.Degraded && d.Cause == "":
		is = min(is, was) // the device is recovering or being programmed
	}
	l.known[d.ID] = is
	if known && is == was {
		explained := is == inventory.Unhealthy && c.explain(d, now)
		l.changed = l.changed || explained
		return false
	}
	if !known {
		return false
	}
	t := HealthChange{Time: timeOf(now), Device: d.ID, From: was.String(), To: is.String()}
	if is > was {
		t.Reason = clean(d.Cause)
	}
	c.note(t, now)
	l.changed = true
	return true
}

// remember records what the inventory will need to know about a device after a restart. m is nil if there is nothing to
// remember.
func (l *Ledger) remember(c *card, id string, m *inventory.Memory) {
	if reflect.DeepEqual(m, c.Devices[id]) {
		return
	}
	l.changed = true
	if m == nil {
		delete(c.Devices, id)
		return
	}
	if c.Devices == nil {
		c.Devices = make(map[string]*inventory.Memory)
	}
	c.Devices[id] = m
}

// isExempt reports whether an absent card is currently exempt from being missing.
func (l *Ledger) isExempt(c *card) bool {
	return l.cfg.Exempt != nil && l.cfg.Exempt(c.Card, c.Family, c.PCIID)
}

// findMissing determines which cards are missing. It is called after startup and after relevant changes. It reports
// whether it must be called again, because some cards' drivers are late or the file hasn't been read yet.
func (l *Ledger) findMissing(now time.Time) (recheck bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.look, recheck = true, false, l.unread
	if l.taken {
		l.taken = false
		l.compareAddresses()
		l.forgetPorts()
	}
	for _, c := range l.sorted() {
		switch {
		case c.present:
			continue
		case l.moved(c, now):
			continue
		case !c.Expected, l.isExempt(c):
			l.changed = l.changed || !c.Missing.IsZero()
			c.Missing, c.reported = time.Time{}, false
			continue
		case c.reported:
			continue
		case l.isLate(c) && (c.late.IsZero() || now.Sub(c.late) < lateWithin):
			if recheck = true; c.late.IsZero() {
				c.late = now
			}
			continue
		case c.Missing.IsZero(), c.Missing.After(now): // the clock was set back
			c.Missing, l.changed = timeOf(now), true
		}
		c.reported = true
		fields := []zap.Field{logevent.DeviceMissing, logevent.Device(c.Card)}
		if lasted := now.Sub(c.Missing); lasted >= time.Millisecond { // otherwise, the card has only just gone missing
			fields = append(fields, logevent.Lasted(lasted))
		}
		l.log.Error("card missing", fields...)
	}
	l.publish()
	return recheck
}

// compareAddresses starts a new ledger if all expected cards are gone and others are present, because that means that
// the buses have been renumbered.
func (l *Ledger) compareAddresses() {
	before, same, present := 0, 0, 0
	for _, c := range l.cards {
		switch {
		case c.before && (c.present || l.isLate(c)):
			same++
		case c.before && c.Expected:
			before++
		case c.present:
			present++
		}
	}
	if before > 0 && present > 0 && same == 0 {
		l.begunAnew(before, "all addresses have changed")
		maps.DeleteFunc(l.cards, func(_ string, c *card) bool { return !c.present })
		l.changed = true
	}
}

// forgetPorts forgets devices that a present card no longer has. It skips cards that haven't been read.
func (l *Ledger) forgetPorts() {
	listed, read := make(map[string]bool), make(map[string]bool)
	for _, d := range l.last.Devices {
		listed[d.ID] = true
		read[cardOf(d.ID)] = d.PCIID != ""
	}
	for address, c := range l.cards {
		for id := range c.Devices {
			if c.present && read[address] && !listed[id] {
				l.remember(c, id, nil)
			}
		}
	}
}

// isExpected reports whether a device would be missed. Cordoned, excluded and unwanted devices wouldn't be missed.
// Virtual functions wouldn't either, because they don't exist until someone creates them.
func isExpected(d *inventory.Device) bool {
	return !d.Unwanted() && d.Attributes[inventory.AttributePhysicalFunction] == "" &&
		!slices.Contains(d.Reasons, inventory.ReasonCordoned) && !slices.Contains(d.Reasons, inventory.ReasonExcluded)
}

// hasLeft reports whether a listed device is no longer in its slot.
func hasLeft(d *inventory.Device) bool {
	return slices.Contains(d.Reasons, inventory.ReasonRemoved) || slices.Contains(d.Reasons, inventory.ReasonRemovedInUse)
}

// memoryOf returns what the ledger must remember about a device, or nil if there is nothing to remember.
func memoryOf(d *inventory.Device) *inventory.Memory {
	if d.Memory == nil {
		return nil
	}
	m := *d.Memory
	m.Turns, m.Holds = m.Turns[max(len(m.Turns)-maxTurns, 0):], slices.Clone(m.Holds)
	for i := range m.Holds {
		m.Holds[i].Reason = clean(m.Holds[i].Reason)
	}
	return &m
}

// written returns a copy of m whose times are adjusted to the current clock, in case the clock has been set since they
// were recorded.
func written(m *inventory.Memory, now time.Time) *inventory.Memory {
	shown := func(t time.Time) time.Time { return timeOf(now.Round(0).Add(t.Sub(now))) }
	w := inventory.Memory{Quarantined: m.Quarantined, Bad: m.Bad, Holds: slices.Clone(m.Holds)}
	for _, t := range m.Turns {
		w.Turns = append(w.Turns, shown(t))
	}
	for i := range w.Holds {
		for _, t := range []*time.Time{&w.Holds[i].Since, &w.Holds[i].Passing} {
			if !t.IsZero() {
				*t = shown(*t)
			}
		}
	}
	return &w
}

// timeOf returns t as it is written to the file.
func timeOf(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// clean returns text if it is allowed in the file, and "?" otherwise.
func clean(text string) string {
	if checkText("", text) != nil {
		return "?"
	}
	return text
}

// serialOf returns a device's serial number, or "" if there is none or it isn't allowed in the file.
func serialOf(d *inventory.Device) string {
	serial := d.Attributes[inventory.AttributeSerialNumber]
	if checkText("", serial) != nil {
		return ""
	}
	return serial
}

func cardOf(id string) string {
	address, _, _ := strings.Cut(id, "-p")
	return address
}
