package inventory

import (
	"slices"
	"time"
)

// failuresUntilUnhealthy is how many readings in a row may fail before the last
// good one is no longer believed.
const failuresUntilUnhealthy = 3

// card is what the loop remembers of one card.
type card struct {
	address string
	physFn  string
	ports   []*port // in the order of the last reading

	want    want
	queued  want // the queue that it stands in
	reading bool
	started time.Time // of the reading under way
	stuck   bool      // that reading has outlasted the read timeout
	counted bool      // that reading is one of the bounded routine ones

	hinted   time.Time // first hint since the last reading began; zero: none
	answered time.Time // first hint before it: what the reading under way answers
	recheck  time.Time // when time alone may change something; zero: never
	failures int       // readings that failed, in a row
}

// want says whether, and how soon, a card is to be read.
type want uint8

const (
	wantNothing want = iota
	wantRoutine      // in its turn
	wantNow          // ahead of all routine, and beside any number of other readings
)

// port is what the loop remembers of one port (or unit) between readings.
type port struct {
	name        string
	incarnation uint64
	family      string

	portID      int // -1: never known
	afuID       string
	interfaceID string
	seen        map[string]bool // health files that were there

	last   Port // as it was read last, for verdicts without a reading
	health health
	since  time.Time // of the published health
	device *Device   // as published; nil before
}

// port returns the memory of the port with this identity, or nil.
func (c *card) port(id string) *port {
	for _, p := range c.ports {
		if p.device.ID == id {
			return p
		}
	}
	return nil
}

// lives returns the memory of the port whose directory this is, or nil: a
// directory of the same name may be another one.
func (c *card) lives(name string, incarnation uint64) *port {
	for _, p := range c.ports {
		if p.name == name && p.incarnation == incarnation {
			return p
		}
	}
	return nil
}

// identify gives each port of a reading its identity, in order. Ports whose
// number is not known, or was taken by an earlier port of the card, get the
// lowest number that is left: of a card with one port that is the right one.
func (c *card) identify(ports []Port) (ids []string, doubles []bool) {
	ids, doubles = make([]string, len(ports)), make([]bool, len(ports))
	taken := make(map[int]bool)
	var open []int
	for i, p := range ports {
		number, known := c.portID(p)
		switch {
		case p.ID != "":
			ids[i] = p.ID
		case !known:
			open = append(open, i)
		case taken[number]:
			open, doubles[i] = append(open, i), true
		default:
			taken[number], ids[i] = true, deviceID(c.address, number)
		}
	}
	for _, i := range open {
		number := 0
		for taken[number] {
			number++
		}
		taken[number], ids[i] = true, deviceID(c.address, number)
	}
	return ids, doubles
}

// portID is the port's hardware number: read once, then kept while its
// directory lives.
func (c *card) portID(p Port) (number int, known bool) {
	if old := c.lives(p.Name, p.Incarnation); old != nil && old.portID >= 0 {
		return old.portID, true
	}
	return p.PortID, p.PortIDKnown
}

// learn updates the memory of a port from a reading of it.
func (p *port) learn(r Port, family string) {
	if p.name != r.Name || p.incarnation != r.Incarnation {
		// Another directory: nothing that was read in the old one is known of it.
		p.portID, p.afuID, p.interfaceID, p.seen = -1, "", "", nil
	}
	p.name, p.incarnation, p.family, p.last = r.Name, r.Incarnation, family, r
	if r.PortIDKnown && p.portID < 0 {
		p.portID = r.PortID
	}
	if r.AFUIDKnown {
		p.afuID = r.AFUID
	}
	if r.InterfaceIDKnown {
		p.interfaceID = r.InterfaceID
	}
}

// conditions are those of the last reading, with the files that were there once
// and are no longer.
func (p *port) conditions() []Condition {
	all := slices.Clone(p.last.Conditions)
	for _, f := range p.last.Files {
		switch {
		case !f.Absent:
			if p.seen == nil {
				p.seen = make(map[string]bool)
			}
			p.seen[f.Name] = true
		case p.seen[f.Name]:
			all = append(all, Condition{Reason: ReasonUnreadable + "=" + f.Name, Health: f.Lost})
		}
	}
	return all
}

// publish builds the device as readers will see it.
func (p *port) publish(id, address string, v verdict) *Device {
	return &Device{
		ID: id, Family: p.family,
		Health: v.health, Reasons: v.reasons,
		PCIAddress: address, NUMANode: p.last.NUMANode,
		PortID: p.portID, AFUID: p.afuID, InterfaceID: p.interfaceID,
		Nodes: p.last.Nodes, Parent: p.last.Parent, ParentNodes: p.last.ParentNodes,
	}
}
