package sensors

import (
	"regexp"
	"slices"
)

// Names of the readings in a summary. These readings have no chip, so that a metric's labels don't change when a
// different sensor becomes the hottest one.
const (
	Die     = "die"     // FPGA temperature; the highest if there are several
	Hottest = "hottest" // the temperature that is closest to its limit
	Board   = "board"   // board power
)

// dies identifies the sensors for the FPGA's temperature, best source first. The board controller's sensors come before
// the FME's, because not every FME measures the temperature: an N6000's FME reports 0 °C. The labels come from
// drivers/hwmon/intel-m10-bmc-hwmon.c and from XRT.
var dies = []func(chip, name string) bool{
	named(`^FPGA Die Temperature$`),                     // N3000
	named(`^FPGA Core Temperature$`),                    // D5005, C6100
	named(`^FPGA FABRIC (Remote )?Digital Temperature`), // N6000
	named(`^FPGA [12] Temperature$`),                    // N5010
	named(`^FPGA TEMP$`),
	func(chip, _ string) bool { return chip == fmeThermal || chip == opaeThermal },
}

// boards identifies the sensors for the board's power, best source first.
var boards = []func(chip, name string) bool{
	named(`^Board Power$`),
	func(chip, _ string) bool { return chip == fmePower || chip == opaePower },
}

func named(pattern string) func(chip, name string) bool {
	expression := regexp.MustCompile("(?i)" + pattern)
	return func(_, name string) bool { return expression.MatchString(name) }
}

// ForSummary returns the sensors needed for a card's summary, in their original order: all temperatures and the board's
// power.
func ForSummary(all []Sensor) []Sensor {
	power := -1
	for _, is := range boards {
		if power = slices.IndexFunc(all, func(s Sensor) bool { return s.Kind == Power && is(s.Chip, s.Name) }); power >= 0 {
			break
		}
	}
	var needed []Sensor
	for i, s := range all {
		if s.Kind == Temperature || i == power {
			needed = append(needed, s)
		}
	}
	return needed
}

// Summarize returns a card's [Die], [Hottest] and [Board] readings, in this order, omitting those that the card doesn't
// have. Their Chip is "".
//
// The hottest point is the one closest to its Max, because one part of a board may tolerate 118 °C and another just 75
// °C. If no point has a Max, it is the one closest to its Crit, and if there are no limits at all, the one with the
// highest temperature.
func Summarize(readings []Reading) []Reading {
	var summary []Reading
	add := func(name string, best Reading, ok bool) {
		if ok {
			best.Chip, best.Name, best.Of = "", name, best.Name
			summary = append(summary, best)
		}
	}
	hotter := func(a, b Reading) bool { return a.Value > b.Value }
	best, ok := first(readings, Temperature, dies, hotter)
	add(Die, best, ok)
	best, ok = first(readings, Temperature, []func(chip, name string) bool{func(_, _ string) bool { return true }}, nearer)
	add(Hottest, best, ok)
	best, ok = first(readings, Power, boards, hotter)
	add(Board, best, ok)
	return summary
}

// first returns the best reading of this kind from the first group that contains any.
func first(readings []Reading, kind Kind, groups []func(chip, name string) bool, better func(a, b Reading) bool) (best Reading, ok bool) {
	for _, in := range groups {
		for _, r := range readings {
			if r.Kind == kind && in(r.Chip, r.Name) && (!ok || better(r, best)) {
				best, ok = r, true
			}
		}
		if ok {
			return best, true
		}
	}
	return Reading{}, false
}

// nearer reports whether a is closer to its limit than b. A reading that has a Max always counts as closer than one
// that only has a Crit, which in turn counts as closer than one without limits.
func nearer(a, b Reading) bool {
	rank := func(r Reading) int {
		switch {
		case r.Max != 0:
			return 2
		case r.Crit != 0:
			return 1
		}
		return 0
	}
	if rank(a) != rank(b) {
		return rank(a) > rank(b)
	}
	return a.Value-a.Least() > b.Value-b.Least()
}
