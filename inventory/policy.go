package inventory

import (
	"slices"
	"strings"
)

// Policy holds the administrator's settings for devices. It is immutable.
type Policy struct {
	// Families list and read the cards. A card that two families can read belongs to whichever comes first. Families
	// must be comparable with ==.
	Families []Family
	// Mode is the node's mode. Changing it begins a new generation ([Snapshot.Generation]).
	Mode string
	// AnyAFU means that a unit is still the same device when it comes back with a different AFU, because pods program
	// it.
	AnyAFU bool
	// Exclude lists cards (BB:DD.F, or DDDD:BB:DD.F outside domain 0) and single ports (a card with -pN, even for port
	// 0) that must not be allocated. The value is the reason: [ReasonExcluded] or [ReasonCordoned]. The address of any
	// of a device's members also excludes the device.
	Exclude map[string]string
	// Severity overrides the severity of conditions. The key is a [Condition.Row] or just the NAME part of it. Healthy
	// means that the condition is ignored.
	Severity map[string]Health
	// Name returns the name of the resource that a device belongs to, or "" if the device isn't offered. In that case,
	// the error explains why, or is nil if the policy never offers such devices. Name must always return the same name
	// for the same device, and must not use the device's health, reasons or OfferedAs. The loop calls it, so it must
	// not block. If Name is nil, devices have no names.
	Name func(*Device) (string, error)
}

// entries returns all [Policy.Exclude] entries that would exclude a device: its card, its port and its other functions.
func (d *Device) entries() []string {
	all := []string{d.ID, d.ID + "-p0"}
	if card := cardOf(d.ID); d.ID != card {
		all = []string{card, d.ID}
	}
	for _, m := range d.Members {
		all = append(all, strings.TrimPrefix(m, "0000:"))
	}
	return all
}

// excludes returns the reasons in the Exclude entries that match the device.
func (p Policy) excludes(d *Device) (reasons []string) {
	for _, entry := range d.entries() {
		if reason := p.Exclude[entry]; reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// unmatched returns the excluded entries that don't match any of the devices, sorted. Cordons are ignored, because they
// may have been set before the card was there.
func (p Policy) unmatched(devices []*Device) []string {
	named := make(map[string]bool)
	for _, d := range devices {
		for _, entry := range d.entries() {
			named[entry] = true
		}
	}
	var unmatched []string
	for entry, reason := range p.Exclude {
		if !named[entry] && reason == ReasonExcluded {
			unmatched = append(unmatched, entry)
		}
	}
	slices.Sort(unmatched)
	return unmatched
}

// cardOf returns the card's address in a device id.
func cardOf(id string) string {
	card, _, _ := strings.Cut(id, "-p")
	return card
}

// apply gives the conditions in read the severities from the policy, and removes those that the policy ignores. It
// modifies read.
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
