package inventory

import (
	"cmp"
	"fmt"
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
	ports   []*port             // in the order of the last reading
	byID    map[string]*port    // the same, by the id of their device
	byDir   map[directory]*port // the same, by their directory

	known result // the newest good reading; a check compares with it

	want   want
	queued want // the queue that it stands in

	newest  int       // number of the newest reading
	reading bool      // that one is under way, and in time
	overdue bool      // that one is under way, and has outlasted the read timeout
	counted bool      // that one is one of the bounded routine ones
	started time.Time // of that one
	doubted bool      // a second one was started beside it
	stuck   int       // readings under way that nobody will wait for: overdue, or one of two

	nodeHints map[string]Hint // hints about nodes since the newest reading began, by name

	hinted   time.Time // first hint since the newest reading began; zero: none
	answered time.Time // first hint before it: what it answers
	recheck  time.Time // when time alone may change something; zero: never
	failures int       // failed readings in a row, one per health interval at most
	failedAt time.Time // when the last one was counted
	wasRead  bool      // once at least: there is a last state to keep

	starved   time.Time // since when each reading has met the daemon's own trouble; zero: the newest did not
	unchecked bool      // each reading has met it for too long

	recoveryFailed bool // the kernel gave it up, and no reading since has shown that it answers
	givenUpAt      int  // number of the newest reading when it did
}

// maxStuck bounds the readings of one card that hang. A card whose newest
// reading hangs is read beside it when news arrives: it may have left, and what
// is in its slot now may be another one.
const maxStuck = 3

// mayRead says whether a reading may be started.
func (c *card) mayRead() bool {
	return !c.reading && (!c.overdue || c.want == wantNow && c.stuck < maxStuck)
}

// steady reports whether a check is enough: the last reading of the card could be made, it
// found ports with which nothing was wrong, ignored or not, and their devices are
// healthy.
func (c *card) steady() bool {
	for _, p := range c.ports {
		if len(p.wrong) > 0 || p.device.Health != Healthy {
			return false
		}
	}
	return len(c.ports) > 0 && c.failures == 0 && c.starved.IsZero()
}

// directory tells a port's directory from a later one of the same name.
type directory struct {
	name        string
	incarnation uint64
}

func directoryOf(r Unit) directory { return directory{r.Name, r.Incarnation} }

// want says whether, and how soon, a card is to be read.
type want uint8

const (
	wantNothing want = iota
	wantCheck        // in its turn, and only if it has changed since the last reading
	wantRoutine      // in its turn
	wantNow          // ahead of all routine, and beside any number of other readings
)

// port is what the loop remembers of one port (or unit) between readings, while
// its directory lives.
type port struct {
	directory
	family string

	portID   int // -1: never known
	what     identity
	seen     map[string]bool   // health files that were there once
	counters map[string]uint64 // as they were read last

	last   Unit        // as it was read last
	wrong  []Condition // what is wrong by that, and by what was known before
	health health
	// conflict is the worst conflict about its nodes since the last time that there was none.
	conflict conflict
	since    time.Time // of the published health
	device   *Device   // as published; nil before
	came     time.Time // when it came under our eyes; zero: it was there before us, or has been offered since
	coming   bool      // being plugged in, so far: what is wrong is no news

	free     bool      // nobody holds it as what it was: it may be offered as what it is
	nameless time.Time // since when it lacks something to be offered; zero: it does not
	said     bool      // that was said
}

// identify gives each port of a reading its identity, in order, and says which
// of them claim a number that another one claims too.
//
// A hardware number is read once and kept while the port's directory lives: a
// newcomer cannot take it away. Ports whose number is not known, or is another
// one's, get the lowest number that is left: of a card with one port that is the
// right one. They keep that, too, until their number is known.
func (c *card) identify(ports []Unit) (ids []string, conflicts []bool) {
	ids, conflicts = make([]string, len(ports)), make([]bool, len(ports))
	taken := make(map[int]bool)
	claims := make(map[int][]int) // number -> newcomers that claim it
	var open []int
	for i, p := range ports {
		old := c.byDir[directoryOf(p)]
		switch {
		case p.ID != "":
			ids[i] = p.ID
		case old != nil && old.portID >= 0:
			taken[old.portID], ids[i] = true, deviceID(c.address, old.portID)
		case p.PortIDKnown:
			claims[p.PortID] = append(claims[p.PortID], i)
		default:
			open = append(open, i)
		}
	}
	for number, claimants := range claims {
		if !taken[number] {
			first := claimants[0]
			taken[number], ids[first] = true, deviceID(c.address, number)
			conflicts[first] = len(claimants) > 1
			claimants = claimants[1:]
		}
		for _, i := range claimants {
			conflicts[i] = true
			open = append(open, i)
		}
	}
	slices.Sort(open)
	c.keepNumbers(ports, open, taken, ids)
	for _, i := range open {
		if ids[i] != "" {
			continue
		}
		number := 0
		for taken[number] {
			number++
		}
		taken[number], ids[i] = true, deviceID(c.address, number)
	}
	return ids, conflicts
}

// keepNumbers gives those of the open ports the numbers back that they had, where
// nobody has taken them.
func (c *card) keepNumbers(ports []Unit, open []int, taken map[int]bool, ids []string) {
	for _, i := range open {
		old := c.byDir[directoryOf(ports[i])]
		if old == nil || old.device == nil {
			continue
		}
		if number := portOf(old.device.ID); !taken[number] {
			taken[number], ids[i] = true, old.device.ID
		}
	}
}

// portsComeWithin is how long ports of a card that has been plugged in are waited for.
const portsComeWithin = time.Second

// awaits is what is wrong with a region that has just come without some of its ports.
// The kernel adds and binds one after the other, and nobody is to be given half a card.
// What is not there after a while has been released for virtual functions.
func (c *card) awaits(p *port, now time.Time) []Condition {
	until := p.came.Add(portsComeWithin)
	if !p.last.Partial || !now.Before(until) {
		p.health.forgive(ReasonPortMissing) // nothing that it has to recover from, even if it was here before
		return nil
	}
	c.recheckAt(until)
	return []Condition{{Reason: ReasonPortMissing, Health: Unhealthy}}
}

// hasNode reports whether the last reading of the card has the node of this name.
func (c *card) hasNode(name string) bool {
	return slices.ContainsFunc(c.ports, func(p *port) bool { return p.last.hasNode(name) })
}

func (r Unit) hasNode(name string) bool {
	return slices.Contains(r.Nodes, name) || slices.Contains(r.ParentNodes, name)
}

// recheckAt has the card read again at t, or before; zero: never.
func (c *card) recheckAt(t time.Time) {
	if c.recheck.IsZero() || !t.IsZero() && t.Before(c.recheck) {
		c.recheck = t
	}
}

// keep makes these the card's ports, with these ids.
func (c *card) keep(ports []*port, ids []string) {
	c.ports = ports
	c.byID, c.byDir = make(map[string]*port, len(ports)), make(map[directory]*port, len(ports))
	for i, p := range ports {
		c.byID[ids[i]], c.byDir[p.directory] = p, p
	}
}

// learn updates the memory of a port from a reading of it.
func (p *port) learn(r Unit, family string) {
	if len(r.NodeNumbers) < len(r.Nodes) && slices.Equal(r.Nodes, p.last.Nodes) {
		r.NodeNumbers = p.last.NodeNumbers // a number does not change while the directory exists
	}
	p.directory, p.family, p.last = directoryOf(r), family, r
	if r.PortIDKnown && p.portID < 0 {
		p.portID = r.PortID
	}
	p.what.learn(r, family)
	p.wrong = slices.Concat(r.Conditions, p.lost(), p.risen())
	for _, f := range r.Files {
		if !f.Absent {
			if p.seen == nil {
				p.seen = make(map[string]bool, len(r.Files))
			}
			p.seen[f.Name] = true
		}
	}
}

// lost are the health files of the reading that were there once and are gone.
func (p *port) lost() []Condition {
	var all []Condition
	for _, f := range p.last.Files {
		if f.Absent && p.seen[f.Name] {
			reason := cmp.Or(f.Reason, ReasonUnreadable+"="+f.Name)
			all = append(all, Condition{
				Reason: reason, Health: f.Lost, Row: f.Row, Err: fmt.Errorf("%s: was there and is gone", f.Name),
			})
		}
	}
	return all
}

// risen are the counters that have risen since the reading before. A counter
// that has fallen was begun anew, with the device that keeps it.
func (p *port) risen() []Condition {
	var all []Condition
	for _, c := range p.last.Counters {
		before, known := p.counters[c.Name]
		if known && c.Value > before {
			all = append(all, Condition{
				Reason: c.Reason, Health: c.Health, Row: c.Row,
				Err: fmt.Errorf("%s: rose from %d to %d", c.Name, before, c.Value),
			})
		}
		if p.counters == nil {
			p.counters = make(map[string]uint64, len(p.last.Counters))
		}
		p.counters[c.Name] = c.Value
	}
	return all
}

// describe builds the device as readers will see it, but for its health and its
// name.
func (p *port) describe(id, address string) *Device {
	if p.last.ID != "" { // a unit that stands in no slot
		address = ""
	}
	return &Device{
		ID: id, Family: p.family,
		PCIAddress: address, PCIID: p.what.pci, NUMANode: p.last.NUMANode,
		PortID: p.portID, AFUID: p.what.afu, InterfaceID: p.what.iface,
		Nodes: p.last.Nodes, NodeNumbers: p.last.NodeNumbers, Parent: p.last.Parent, ParentNodes: p.last.ParentNodes,
		Annotations: p.last.Annotations,
	}
}
