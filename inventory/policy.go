package inventory

import (
	"slices"
	"strings"
)

// Policy holds the administrator's settings for devices. It is immutable.
type Policy struct {
	// Families list and read the cards. A card that two families can read belongs to the
	// first of them. They must be comparable with ==.
	Families []Family
	// Mode is the mode of the node. Another mode begins a new generation
	// ([Snapshot.Generation]).
	Mode string
	// AnyAFU: a unit that returns with another AFU is the same device, because pods
	// program it.
	AnyAFU bool
	// Exclude has the cards (BB:DD.F, or DDDD:BB:DD.F outside domain 0) and the single
	// ports (the same with -pN, also for port 0) that are given to no container.
	Exclude map[string]bool
	// Severity overrules the severity of a condition, by its [Condition.Row] or the NAME
	// of that. Healthy: the condition is ignored.
	Severity map[string]Health
	// Name returns the name of the resource that a device belongs to. It must not use the
	// device's health, reasons and OfferedAs. "": the device is not offered; the error is
	// the reason, or nil if the policy offers no such devices. The loop calls it: it must
	// not block, and must return the same name for the same device. nil: devices have no
	// names.
	Name func(*Device) (string, error)
}

// excludes reports whether the device with this id is excluded.
func (p Policy) excludes(id string) bool {
	return p.Exclude[id] || p.Exclude[cardOf(id)] || id == cardOf(id) && p.Exclude[id+"-p0"]
}

// idle returns the entries of Exclude that match none of the devices, sorted.
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

// cardOf returns the part of an id that is the card's address.
func cardOf(id string) string {
	card, _, _ := strings.Cut(id, "-p")
	return card
}

// apply sets the severities of the policy and removes ignored conditions. It changes the
// slice.
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
