package inventory

import (
	"slices"
	"strings"
)

// Policy is what the operator says about devices. It is immutable.
type Policy struct {
	// Families read the cards. Their order decides which one a card belongs to that two
	// of them know. They must be comparable with ==.
	Families []Family
	// Mode names what the policy makes of the node as a whole. Another one begins a new
	// generation ([Snapshot.Generation]).
	Mode string
	// AnyAFU: a unit that comes back with another AFU is the same device, because pods
	// program it.
	AnyAFU bool
	// Exclude names cards (BB:DD.F, with a domain DDDD: where it is not 0) and
	// single ports (the same with -pN, port 0 too) that are offered to nobody.
	Exclude map[string]bool
	// Severity overrules how bad a condition is, by its [Condition.Row] or the NAME
	// of that. Healthy: it does not count at all.
	Severity map[string]Health
	// Name says what a device is to be offered as, by what it is: all of it but
	// health and OfferedAs. "": it is not offered, and the error says what it lacks;
	// without an error it was not meant to be. It is called by the loop: it may not
	// block, and says the same of the same device. nil: devices have no names.
	Name func(*Device) (string, error)
}

// excludes says whether the device with this id is named.
func (p Policy) excludes(id string) bool {
	return p.Exclude[id] || p.Exclude[cardOf(id)] || id == cardOf(id) && p.Exclude[id+"-p0"]
}

// idle lists what is excluded though none of the devices is meant.
func (p Policy) idle(devices []*Device) []string {
	named := make(map[string]bool)
	for _, d := range devices {
		card := cardOf(d.ID)
		named[d.ID], named[card] = true, true
		if d.ID == card {
			named[card+"-p0"] = true
		}
	}
	var idle []string
	for entry := range p.Exclude {
		if !named[entry] {
			idle = append(idle, entry)
		}
	}
	slices.Sort(idle)
	return idle
}

// cardOf is the part of an id that names the card.
func cardOf(id string) string {
	card, _, _ := strings.Cut(id, "-p")
	return card
}

// apply overrules the conditions that the operator has an opinion on. The slice
// is the caller's to lose.
func (p Policy) apply(read []Condition) []Condition {
	if len(p.Severity) == 0 {
		return read
	}
	for i := range read {
		read[i].Health = p.severity(read[i])
	}
	return slices.DeleteFunc(read, func(c Condition) bool { return c.Health == Healthy })
}

func (p Policy) severity(c Condition) Health {
	if c.Row == "" {
		return c.Health
	}
	if h, ok := p.Severity[c.Row]; ok {
		return h
	}
	name, _, _ := strings.Cut(c.Row, "=")
	if h, ok := p.Severity[name]; ok {
		return h
	}
	return c.Health
}
