package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// node is the state of this node's cards, their devices and the devices' holders. Its methods don't read the clock,
// write to the log or use channels; instead, the time is an argument and [node.reconcile] returns the changes. Only the
// loop uses it.
type node struct {
	rules      rules
	policy     Policy
	generation uint64 // see [Snapshot.Generation]
	asks       bool   // [Config.Holders] is set

	ready    bool // a list has been published, so any new unit has been plugged in since
	complete bool // each card has been read in this generation or given up on

	cards   map[string]*card     // by address
	entries map[string]*entry    // by the id of the device
	waiting map[string]bool      // ids of entries that are waiting for an answer about holders
	recheck map[string]time.Time // by card address; when the card must be read again
	holders holders
	past    map[string]*Device         // by id; what an earlier daemon knew about devices that haven't been seen since
	kept    map[string]map[string]bool // device node's name or number -> ids of the devices it is kept for

	marked  []string             // ids of the entries to reconcile, in this order
	causes  map[string]time.Time // by id, for each id in marked; when the hint arrived, or zero if there was none
	changes []change             // since the last call to reconcile
	devices []*Device            // to be published, sorted by id
	copied  bool                 // devices is no longer the newest snapshot's slice
	changed bool                 // a new snapshot must be published
	hinted  time.Time            // arrival time of the earliest hint that caused an unpublished change
}

// card is the state of one card.
type card struct {
	units   []*unit // in the last reading's order
	byDir   map[directory]*unit
	read    bool        // the units come from a reading rather than an outline
	former  bool        // the units are from an earlier generation
	trouble []Condition // conditions of the card as a whole; each unit also has its own
}

// directory identifies a unit's directory. If it is replaced by another directory with the same name, the incarnation
// changes.
type directory struct {
	name        string
	incarnation uint64
}

func directoryOf(u Unit) directory { return directory{u.Name, u.Incarnation} }

// unit is the state of a unit that is present. It lasts as long as the unit's directory exists.
type unit struct {
	directory
	id     string
	card   string // the card's address
	family string

	portID     int // -1 if it was never known
	identity   identity
	seen       map[string]bool   // health files that have existed
	counters   map[string]uint64 // from the last reading
	last       Unit              // the last reading
	conditions []Condition       // of the last reading, plus those for lost files and for counters that have risen

	added        time.Time // when it was plugged in; zero if it was there before the first list or has been offered since
	beingPlugged bool      // it is still being plugged in, so conditions are normal and are logged at level info
	device       *Device   // as published; nil if it hasn't been published yet
	unnamed      time.Time // when it was first found to lack a name; zero if it has one or doesn't need one
	logged       bool      // its missing name has been logged
}

// entry is what is known about one device id: the unit that is present and the reservation for the device.
type entry struct {
	id          string
	unit        *unit        // nil if no unit is present
	reservation *reservation // nil if there is no reservation
	health      health       // tracked conditions and turns; also kept if there is a reservation but no unit
	device      *Device
	since       time.Time // when the device's health last changed
	// justReleased means that the reservation for the present device has just ended, so the device's name may change.
	justReleased bool

	holders  []holder // from the newest answers
	nodes    []string // names and numbers of the device nodes that are kept for the device
	lost     lost     // which of the nodes the device no longer has
	contends bool     // some of the device's nodes are kept for another device, or its holder was given different ones
}

func newNode(cfg Config, now time.Time) *node {
	n := &node{
		rules: rules{
			hold: cfg.RecoveryHold, reprogram: cfg.ReprogramTimeout,
			flapLimit: cfg.FlapLimit, flapWindow: cfg.FlapWindow,
			unnamed: cfg.HealthInterval, grace: cfg.TombstoneGrace, interval: cfg.HoldersInterval,
		},
		policy: cfg.Policy, asks: cfg.Holders != nil, past: maps.Clone(cfg.Remembered),
		cards: make(map[string]*card), entries: make(map[string]*entry), waiting: make(map[string]bool),
		recheck: make(map[string]time.Time), kept: make(map[string]map[string]bool), causes: make(map[string]time.Time),
		holders: holders{record: cfg.Record, Holdings: Holdings{Awaiting: cfg.HoldersUnknown && cfg.Holders != nil}},
	}
	for id := range cfg.Record {
		n.keepNodes(n.entry(id))
	}
	return n
}

// entry returns the entry with this id, adding it if necessary.
func (n *node) entry(id string) *entry {
	e := n.entries[id]
	if e == nil {
		e = &entry{id: id}
		n.entries[id] = e
	}
	return e
}

// apply updates a card with what the scheduler has found out about it.
func (n *node) apply(o outcome, now time.Time) {
	switch {
	case o.gone:
		n.removeCard(o.address, o.cause, now)
		return
	case o.same && n.steady(o.address):
		return
	case o.reading != nil:
		n.takeReading(o, now)
	}
	n.setTrouble(o.address, o.trouble, o.cause)
}

// takeReading updates a card's units from a reading or outline. If a unit's directory or family has changed, the unit
// must have been removed and added again between the two readings.
func (n *node) takeReading(o outcome, now time.Time) {
	address, cause := o.address, o.cause
	c := n.cards[address]
	if c == nil {
		c = &card{}
		n.cards[address] = c
	}
	delete(n.recheck, address)
	ids, conflicts := c.identify(address, o.reading.Units)
	units := make([]*unit, len(ids))
	for i, read := range o.reading.Units {
		if conflicts[i] {
			// Don't store the port number while two units claim it.
			read.PortIDKnown = false
			read.Conditions = append(slices.Clone(read.Conditions), Condition{Reason: ReasonPortIDConflict, Health: Unhealthy})
		}
		units[i] = n.takeUnit(n.entry(ids[i]), read, c, o, now)
	}
	for _, u := range c.units {
		if !slices.Contains(ids, u.id) {
			n.removeUnit(n.entries[u.id], cause, now)
		}
	}
	c.units, c.byDir = units, make(map[directory]*unit, len(units))
	for _, u := range units {
		c.byDir[u.directory] = u
		n.mark(u.id, cause)
	}
	c.read, c.former = c.read || !o.outline, false
	for _, id := range slices.Sorted(maps.Keys(n.waiting)) { // the card's devices that were allocated in another mode
		if n.entries[id].unit == nil && addressOf(id) == address {
			n.mark(id, cause)
		}
	}
}

// takeUnit updates an entry from a reading of one of the card's units, and returns the unit.
func (n *node) takeUnit(e *entry, read Unit, c *card, o outcome, now time.Time) *unit {
	was := e.unit
	if was != nil && (c.former && was.swapped(read) || !c.former && (was.directory != directoryOf(read) || was.family != o.family)) {
		n.removeUnit(e, o.cause, now)
	}
	switch {
	case e.unit == nil:
		n.addUnit(e, now)
	case c.former: // only the kind of unit has changed, so no device has left
		e.unit = &unit{portID: -1, device: was.device}
	}
	e.unit.id, e.unit.card = e.id, o.address
	e.unit.learn(read, o.family)
	return e.unit
}

// setTrouble sets the conditions that apply to a card as a whole.
func (n *node) setTrouble(address string, trouble []Condition, cause time.Time) {
	c := n.cards[address]
	if c == nil {
		if len(trouble) == 0 {
			return
		}
		c = &card{}
		n.cards[address] = c
	}
	c.trouble = trouble
	for _, u := range c.units {
		n.mark(u.id, cause)
	}
}

// removeCard removes a card that is gone, together with its units.
func (n *node) removeCard(address string, cause, now time.Time) {
	if c := n.cards[address]; c != nil {
		for _, u := range c.units {
			n.removeUnit(n.entries[u.id], cause, now)
		}
	}
	delete(n.cards, address)
	delete(n.recheck, address)
}

// addUnit adds a unit to an entry that has none. If there is a reservation for the device that was there before, the
// recovery hold applies to the new device.
func (n *node) addUnit(e *entry, now time.Time) {
	e.unit = &unit{portID: -1}
	n.markUnknown()
	if n.ready {
		e.unit.added = now
	}
	if e.reservation == nil {
		e.health = health{}
		return
	}
	e.health.offered = true
	e.health.returned(now, e.reservation.reason())
}

// removeUnit removes an entry's unit. A reservation keeps the unit's device on the list until it is known to be free.
func (n *node) removeUnit(e *entry, cause, now time.Time) {
	d, u := e.unit.device, e.unit
	e.unit, e.contends = nil, false
	n.markUnknown()
	n.mark(e.id, cause)
	if d == nil {
		return
	}
	n.changes = append(n.changes, change{Change: Change{ID: e.id, Old: d}, kind: deviceRemoved, cause: cause, lasted: now.Sub(e.since), holders: namesOf(n.holders.of(e.id))})
	if !n.asks || n.policy.Name != nil && d.OfferedAs == "" {
		return
	}
	if e.mayBeGiven(u) {
		e.lose(nodesOf(d), now)
	}
	if e.reservation == nil {
		e.reservation = &reservation{device: tombstoneOf(d), identity: u.identity, since: now}
	}
	e.reservation.renamed, e.reservation.standing = false, absent
	n.holders.askAt = earlier(n.holders.askAt, now)
}

// mark marks an entry to be published by the next reconcile. cause is the time of the hint, or zero if there was no
// hint.
func (n *node) mark(id string, cause time.Time) {
	before, marked := n.causes[id]
	if !marked {
		n.marked = append(n.marked, id)
	}
	n.causes[id] = earlier(before, cause)
}

// steady reports whether a quick check of the card will do instead of a full reading: the card's units had no
// conditions in the last reading, not even ignored ones, and their devices are healthy.
func (n *node) steady(address string) bool {
	c := n.cards[address]
	return c != nil && len(c.units) > 0 && !c.former && !slices.ContainsFunc(c.units, func(u *unit) bool {
		return len(u.conditions) > 0 || u.device == nil || u.device.Health != Healthy
	})
}

// steadyCards returns whether each card is steady, keyed by the card's address.
func (n *node) steadyCards() map[string]bool {
	steady := make(map[string]bool, len(n.cards))
	for address := range n.cards {
		steady[address] = n.steady(address)
	}
	return steady
}

// rechecks returns the cards that must be read again now.
func (n *node) rechecks(now time.Time) (due []string) {
	for address, at := range n.recheck {
		if !now.Before(at) {
			delete(n.recheck, address)
			due = append(due, address)
		}
	}
	return due
}

// next returns the next time at which a card must be read again or a reservation may end, or zero. It also ends
// reservations that have expired. If it has ended any, the returned time is in the past, so that the loop publishes the
// change immediately.
func (n *node) next(now time.Time) time.Time {
	next := n.expire(now)
	for _, at := range n.recheck {
		next = earlier(next, at)
	}
	return next
}

// identify returns the id of each unit in a reading, in order, and whether another unit has the same port number.
//
// A port number is read once and kept for as long as the unit's directory exists, even if a new unit has the same
// number. A unit whose number isn't known, or is already taken by another unit, gets the lowest free number, which is
// the right one on a card with one port. The unit keeps that number until its own number is known.
func (c *card) identify(address string, units []Unit) (ids []string, conflicts []bool) {
	ids, conflicts = make([]string, len(units)), make([]bool, len(units))
	taken := make(map[int]bool)
	take := func(i, number int) { taken[number], ids[i] = true, deviceID(address, number) }
	having := make(map[int][]int) // number -> new units with that number
	var open []int
	for i, u := range units {
		old := c.byDir[directoryOf(u)]
		switch {
		case u.ID != "":
			ids[i] = u.ID
		case old != nil && old.portID >= 0:
			take(i, old.portID)
		case u.PortIDKnown:
			having[u.PortID] = append(having[u.PortID], i)
		default:
			open = append(open, i)
		}
	}
	for number, all := range having {
		for _, i := range all {
			conflicts[i] = len(all) > 1 || taken[number]
			if taken[number] {
				open = append(open, i)
			} else {
				take(i, number)
			}
		}
	}
	slices.Sort(open)
	for _, i := range open { // reuse the unit's previous number if it is free
		if old := c.byDir[directoryOf(units[i])]; old != nil && !taken[portOf(old.id)] {
			take(i, portOf(old.id))
		}
	}
	for _, i := range open {
		if ids[i] == "" {
			take(i, lowestFree(taken))
		}
	}
	return ids, conflicts
}

// lowestFree returns the lowest number that isn't taken.
func lowestFree(taken map[int]bool) (number int) {
	for taken[number] {
		number++
	}
	return number
}

// learn updates the unit from a reading.
func (u *unit) learn(read Unit, family string) {
	if len(read.NodeNumbers) < len(read.Nodes) && slices.Equal(read.Nodes, u.last.Nodes) {
		read.NodeNumbers = u.last.NodeNumbers // a number doesn't change while the directory exists
	}
	if vbnv := read.Attributes[AttributeVBNV]; vbnv != "" && vbnv != u.last.Attributes[AttributeVBNV] {
		u.identity.iface = "" // it belonged to the old shell
	}
	if len(u.last.Attributes) > 0 {
		known := maps.Clone(u.last.Attributes)
		maps.Copy(known, read.Attributes)
		read.Attributes = known
	}
	u.directory, u.family, u.last = directoryOf(read), family, read
	if read.PortIDKnown && u.portID < 0 {
		u.portID = read.PortID
	}
	u.identity.learn(read, family)
	u.conditions = slices.Clone(read.Conditions)
	u.learnFiles(read.Files)
	u.learnCounters(read.Counters)
}

// learnFiles adds a condition for each file that used to exist and is now gone.
func (u *unit) learnFiles(files []HealthFile) {
	for _, f := range files {
		switch {
		case !f.Absent:
			if u.seen == nil {
				u.seen = make(map[string]bool, len(files))
			}
			u.seen[f.Name] = true
		case u.seen[f.Name]:
			u.conditions = append(u.conditions, Condition{
				Reason: cmp.Or(f.Reason, ReasonUnreadable+"="+f.Name), Health: f.Lost, Row: f.Row,
				Err: fmt.Errorf("%s: no longer exists", f.Name),
			})
		}
	}
}

// learnCounters adds a condition for each counter that has risen.
func (u *unit) learnCounters(counters []Counter) {
	for _, c := range counters {
		// A counter that is lower than before was reset along with its device, which isn't a condition.
		if before, known := u.counters[c.Name]; known && c.Value > before {
			u.conditions = append(u.conditions, Condition{
				Reason: c.Reason, Health: c.Health, Row: c.Row,
				Err: fmt.Errorf("%s: rose from %d to %d", c.Name, before, c.Value),
			})
		}
		if u.counters == nil {
			u.counters = make(map[string]uint64, len(counters))
		}
		u.counters[c.Name] = c.Value
	}
}

// swapped reports whether read, a unit of a different kind that has taken u's place, belongs to a different card.
func (u *unit) swapped(read Unit) bool {
	var now identity
	now.learn(read, u.identity.family)
	return u.identity.compare(now, true) == different
}

// describe returns the unit's device without its health and name.
func (u *unit) describe() *Device {
	address := u.card
	if u.last.ID != "" {
		address = u.last.PCIAddress
	}
	facts := u.last.Facts
	facts.PCIID, facts.AnyPCIID = u.identity.pci, u.identity.anyPCI
	facts.PortID, facts.AFUID, facts.InterfaceID = u.portID, u.identity.afu, u.identity.iface
	return &Device{ID: u.id, Family: u.family, PCIAddress: address, Facts: facts}
}

// supersede begins a new generation, in which different families read the cards. A card's devices stay listed until the
// card has been read again. Offered devices get a reservation, which makes them unhealthy until an answer shows that
// they have no holder.
func (n *node) supersede(now time.Time) {
	for _, c := range n.cards {
		c.former = true
		for _, u := range c.units {
			e := n.entries[u.id]
			if e.reservation == nil && n.asks && u.device != nil && u.device.OfferedAs != "" {
				e.reservation = &reservation{device: tombstoneOf(u.device), identity: identityOf(u.device), since: now, renamed: true, standing: undecided}
				n.holders.askAt = earlier(n.holders.askAt, now)
				n.mark(e.id, time.Time{})
			}
		}
	}
}

// usePolicy replaces the policy and marks all entries, so that every device is judged again based on its last reading.
func (n *node) usePolicy(p Policy) {
	if p.Mode != n.policy.Mode {
		n.generation++
		n.changed = true
	}
	n.policy = p
	for _, id := range slices.Sorted(maps.Keys(n.entries)) {
		e := n.entries[id]
		var read []Condition
		if e.unit != nil {
			read = e.unit.conditions
		}
		e.health.overrule(read, p)
		n.mark(id, time.Time{})
	}
}
