package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// node is what is known of the cards of this node and of the holders of their devices, and
// what is published of it. Its methods read no clock, write no log and use no channel: they
// are given the time, and [node.reconcile] returns what changed. Only the loop uses it.
type node struct {
	rules      rules
	policy     Policy
	generation uint64 // of the families of the policy
	asks       bool   // the holders of devices are asked for

	ready    bool // a list has been published: a unit that is new has been plugged in
	complete bool // each card has been read in this generation, or given up

	cards   map[string]*card     // by address
	slots   map[string]*slot     // by the id of the device
	waiting map[string]bool      // ids of slots that wait for an answer about holders
	recheck map[string]time.Time // by address of the card: when time alone may change something
	holders holders
	rights  map[string]map[string]bool // name or number of a device node -> ids of devices with a right to it

	marked  []string             // ids of slots that are to be reconciled, in this order
	causes  map[string]time.Time // by those ids: when the hint behind it arrived; zero: there was none
	changes []change             // since the last reconcile
	devices []*Device            // to be published; sorted by id
	copied  bool                 // devices is not the newest snapshot's
	news    bool                 // a snapshot is due
	hinted  time.Time            // earliest hint behind what is not published yet
}

// card is what is known of one card.
type card struct {
	units   []*unit             // in the order of the last reading
	byDir   map[directory]*unit // the same
	read    bool                // units are those of a reading, and not of an outline
	former  bool                // units are those of an earlier generation
	trouble []Condition         // what is wrong with the whole card, beside what is read of its units
}

// directory tells a unit's directory from a later one of the same name.
type directory struct {
	name        string
	incarnation uint64
}

func directoryOf(u Unit) directory { return directory{u.Name, u.Incarnation} }

// unit is what is known of a unit that is present, for as long as its directory lives.
type unit struct {
	directory
	id     string
	card   string // address
	family string

	portID   int // -1: never known
	what     identity
	seen     map[string]bool   // health files that were there once
	counters map[string]uint64 // as they were read last
	last     Unit              // as it was read last
	wrong    []Condition       // what is wrong by that, and by what was known before

	came    time.Time // when it was plugged in; zero: before the first list, or it has been offered since
	coming  bool      // it is being plugged in, so far: what is wrong is no news
	device  *Device   // as published; nil before
	unnamed time.Time // since when it lacks something to be offered; zero: it does not
	noted   bool      // that was logged
}

// slot is the place of one device: what is present there, and what is promised of it.
type slot struct {
	id     string
	unit   *unit  // what is present; nil: nothing
	claim  *claim // what somebody may still rely on; nil: nothing
	free   bool   // a claim ended because nobody holds the device: its name may change
	health health // tracked conditions and turns; they outlast the unit while a claim stands
	device *Device
	since  time.Time // of its health

	nodes    []string // names and numbers of device nodes that it has a right to
	lost     lost     // of these: what the device has lost and holders may still open
	released released // and what was given to holders that are no longer named
	conflict conflict // the worst since there was none
	contends bool     // it waits for containers to end that have a right to nodes
}

func newNode(cfg Config, now time.Time) *node {
	n := &node{
		rules: rules{
			hold: cfg.RecoveryHold, reprogram: cfg.ReprogramTimeout,
			flapLimit: cfg.FlapLimit, flapWindow: cfg.FlapWindow,
			unnamed: cfg.HealthInterval, grace: cfg.TombstoneGrace, interval: cfg.HoldersInterval,
		},
		policy: cfg.Policy, asks: cfg.Holders != nil,
		cards: make(map[string]*card), slots: make(map[string]*slot), waiting: make(map[string]bool),
		recheck: make(map[string]time.Time), rights: make(map[string]map[string]bool), causes: make(map[string]time.Time),
		holders: holders{record: cfg.Record, began: now},
	}
	for id := range cfg.Record {
		n.claimNodes(n.slot(id))
	}
	return n
}

// slot returns the slot with this id, which it makes if there is none.
func (n *node) slot(id string) *slot {
	s := n.slots[id]
	if s == nil {
		s = &slot{id: id}
		n.slots[id] = s
	}
	return s
}

// mark has a slot reconciled, because of a hint that arrived at cause; zero: there was none.
func (n *node) mark(id string, cause time.Time) {
	before, marked := n.causes[id]
	if !marked {
		n.marked = append(n.marked, id)
	}
	n.causes[id] = earlier(before, cause)
}

// takeReading takes in the reading, or the outline, of a card: units that left, came and
// stayed. A unit that has another directory left and came, or is another one: that happened
// between two readings.
func (n *node) takeReading(address string, r result, cause, now time.Time) {
	c := n.cards[address]
	if c == nil {
		c = &card{}
		n.cards[address] = c
	}
	delete(n.recheck, address)
	ids, conflicts := c.identify(address, r.reading.Units)
	units := make([]*unit, len(ids))
	for i, read := range r.reading.Units {
		if conflicts[i] {
			// Not kept: as long as two units claim it, neither is believed.
			read.PortIDKnown = false
			read.Conditions = append(slices.Clone(read.Conditions), Condition{Reason: ReasonPortIDConflict, Health: Unhealthy})
		}
		s := n.slot(ids[i])
		was := s.unit
		if was != nil && (c.former && was.swapped(read) || !c.former && was.directory != directoryOf(read)) {
			n.leave(s, cause, now)
		}
		switch {
		case s.unit == nil:
			n.come(s, now)
		case c.former: // another kind of unit in the same place: it has not left
			s.unit = &unit{portID: -1, device: was.device}
		}
		s.unit.id, s.unit.card = ids[i], address
		s.unit.learn(read, r.family)
		units[i] = s.unit
	}
	for _, u := range c.units {
		if !slices.Contains(ids, u.id) {
			n.leave(n.slots[u.id], cause, now)
		}
	}
	c.units, c.byDir = units, make(map[directory]*unit, len(units))
	for _, u := range units {
		c.byDir[u.directory] = u
		n.mark(u.id, cause)
	}
	c.read, c.former = c.read || !r.outline, false
}

// setTrouble sets what is wrong with a whole card.
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

// remove takes note that a card is gone.
func (n *node) remove(address string, cause, now time.Time) {
	if c := n.cards[address]; c != nil {
		for _, u := range c.units {
			n.leave(n.slots[u.id], cause, now)
		}
	}
	delete(n.cards, address)
	delete(n.recheck, address)
}

// come takes note that there is a unit in a slot where there was none. If somebody may hold
// the device that left the slot, what comes has its recovery hold to pass.
func (n *node) come(s *slot, now time.Time) {
	s.unit = &unit{portID: -1}
	if n.ready {
		s.unit.came = now
	}
	if s.claim == nil {
		s.health = health{}
		return
	}
	s.health.offered = true
	s.health.returned(now, s.claim.reason())
}

// leave takes note that the unit of a slot is gone. If somebody may hold the device, a claim
// takes its place.
func (n *node) leave(s *slot, cause, now time.Time) {
	d, u := s.unit.device, s.unit
	s.unit, s.contends = nil, false
	n.mark(s.id, cause)
	if d == nil {
		return
	}
	n.changes = append(n.changes, change{Change: Change{ID: s.id, Old: d}, kind: deviceRemoved, cause: cause, lasted: now.Sub(s.since)})
	if !n.asks || n.policy.Name != nil && d.OfferedAs == "" {
		return
	}
	if s.claim == nil {
		s.claim = &claim{device: markerOf(d), what: u.what, since: now}
	}
	s.claim.renamed, s.claim.standing = false, absent
	s.lose(nodesOf(d), now)
	n.holders.ask = earlier(n.holders.ask, now)
}

// known reports whether it is known, in this generation, which devices a card has.
func (n *node) known(address string) bool {
	c := n.cards[address]
	return c != nil && len(c.units) > 0 && !c.former
}

// wasRead reports whether a card has been read since it came.
func (n *node) wasRead(address string) bool {
	c := n.cards[address]
	return c != nil && c.read
}

// steady reports whether a check of a card is enough: its last reading found units with which
// nothing was wrong, ignored or not, and their devices are healthy.
func (n *node) steady(address string) bool {
	return n.known(address) && !slices.ContainsFunc(n.cards[address].units, func(u *unit) bool {
		return len(u.wrong) > 0 || u.device == nil || u.device.Health != Healthy
	})
}

// hasNode reports whether the last reading of a card has the device node of this name.
func (n *node) hasNode(address, name string) bool {
	c := n.cards[address]
	return c != nil && slices.ContainsFunc(c.units, func(u *unit) bool {
		return slices.Contains(u.last.Nodes, name) || slices.Contains(u.last.ParentNodes, name)
	})
}

// identify gives each unit of a reading its id, in order, and reports which of them claim a
// port number that another one claims too.
//
// A hardware number is read once and kept while the unit's directory lives: a
// newcomer cannot take it away. Units whose number is not known, or is another
// one's, get the lowest number that is left: of a card with one port that is the
// right one. They keep that, too, until their number is known.
func (c *card) identify(address string, units []Unit) (ids []string, conflicts []bool) {
	ids, conflicts = make([]string, len(units)), make([]bool, len(units))
	taken := make(map[int]bool)
	take := func(i, number int) { taken[number], ids[i] = true, deviceID(address, number) }
	claims := make(map[int][]int) // number -> newcomers that claim it
	var open []int
	for i, u := range units {
		old := c.byDir[directoryOf(u)]
		switch {
		case u.ID != "":
			ids[i] = u.ID
		case old != nil && old.portID >= 0:
			take(i, old.portID)
		case u.PortIDKnown:
			claims[u.PortID] = append(claims[u.PortID], i)
		default:
			open = append(open, i)
		}
	}
	for number, claimants := range claims {
		for _, i := range claimants {
			conflicts[i] = len(claimants) > 1 || taken[number]
			if taken[number] {
				open = append(open, i)
			} else {
				take(i, number)
			}
		}
	}
	slices.Sort(open)
	for _, i := range open { // the number that it had, if no other unit has taken it
		if old := c.byDir[directoryOf(units[i])]; old != nil {
			if number := portOf(old.id); !taken[number] {
				take(i, number)
			}
		}
	}
	for _, i := range open {
		for number := 0; ids[i] == ""; number++ {
			if !taken[number] {
				take(i, number)
			}
		}
	}
	return ids, conflicts
}

// learn takes in a reading of the unit.
func (u *unit) learn(read Unit, family string) {
	if len(read.NodeNumbers) < len(read.Nodes) && slices.Equal(read.Nodes, u.last.Nodes) {
		read.NodeNumbers = u.last.NodeNumbers // a number does not change while the directory exists
	}
	u.directory, u.family, u.last = directoryOf(read), family, read
	if read.PortIDKnown && u.portID < 0 {
		u.portID = read.PortID
	}
	u.what.learn(read, family)
	u.wrong = slices.Clone(read.Conditions)
	for _, f := range read.Files {
		switch {
		case !f.Absent:
			if u.seen == nil {
				u.seen = make(map[string]bool, len(read.Files))
			}
			u.seen[f.Name] = true
		case u.seen[f.Name]: // it was there once
			u.wrong = append(u.wrong, Condition{
				Reason: cmp.Or(f.Reason, ReasonUnreadable+"="+f.Name), Health: f.Lost, Row: f.Row,
				Err: fmt.Errorf("%s: was there and is gone", f.Name),
			})
		}
	}
	for _, c := range read.Counters {
		// A counter that has fallen was begun anew, with the device that keeps it.
		if before, known := u.counters[c.Name]; known && c.Value > before {
			u.wrong = append(u.wrong, Condition{
				Reason: c.Reason, Health: c.Health, Row: c.Row,
				Err: fmt.Errorf("%s: rose from %d to %d", c.Name, before, c.Value),
			})
		}
		if u.counters == nil {
			u.counters = make(map[string]uint64, len(read.Counters))
		}
		u.counters[c.Name] = c.Value
	}
}

// swapped reports whether a unit of another kind, in the same place, is on another card.
func (u *unit) swapped(read Unit) bool {
	var now identity
	now.learn(read, u.what.family)
	return u.what.compare(now, true) == other
}

// describe returns the device as readers will see it, without its health and its name.
func (u *unit) describe() *Device {
	address := u.card
	if u.last.ID != "" { // a unit that stands in no PCI slot
		address = ""
	}
	return &Device{
		ID: u.id, Family: u.family,
		PCIAddress: address, PCIID: u.what.pci, NUMANode: u.last.NUMANode,
		PortID: u.portID, AFUID: u.what.afu, InterfaceID: u.what.iface,
		Nodes: u.last.Nodes, NodeNumbers: u.last.NodeNumbers, Parent: u.last.Parent, ParentNodes: u.last.ParentNodes,
		Annotations: u.last.Annotations,
	}
}

// supersede begins a generation in which other units may be read of the cards. Until a card has
// been read again, its devices are listed as before, and given to no container.
func (n *node) supersede(now time.Time) {
	for _, c := range n.cards {
		c.former = true
		for _, u := range c.units {
			s := n.slots[u.id]
			if s.claim == nil && n.asks && u.device != nil && u.device.OfferedAs != "" {
				s.claim = &claim{device: markerOf(u.device), what: identityOf(u.device), since: now, renamed: true, standing: undecided}
				n.holders.ask = earlier(n.holders.ask, now)
				n.mark(s.id, time.Time{})
			}
		}
	}
}

// usePolicy has all devices judged anew, by the last reading of each.
func (n *node) usePolicy(p Policy) {
	if p.Mode != n.policy.Mode {
		n.generation++
		n.news = true
	}
	n.policy = p
	for _, id := range slices.Sorted(maps.Keys(n.slots)) {
		n.slots[id].health.overrule(p)
		n.mark(id, time.Time{})
	}
}

// earlier returns the earlier of two moments, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
