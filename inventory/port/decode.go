package port

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// decoder decodes the value of a file. This file has all kinds of decoders.
type decoder interface {
	// decode adds the conditions of the value to f. A value that is not valid is an error. dead
	// reports whether the value is the one that a part returns which does not answer; then it has
	// no other meaning.
	decode(value string, f *findings) (dead bool, err error)
	// lines returns the lines of the table.
	lines() []line
	// worst returns the line for a file that cannot be read.
	worst() line
}

// mask decodes a hexadecimal value of 64 bits. Each bit that is set is a condition.
type mask struct {
	bits  []field
	other line   // NAME of the bits without one: NAME=0x…
	quiet uint64 // bits that have no meaning for health
}

type field struct {
	set    uint64 // any of these
	reason string
	health inventory.Health
}

func (m mask) decode(s string, f *findings) (dead bool, err error) {
	value, err := sysfs.ParseMask(s)
	if err != nil || value == ^uint64(0) {
		return err == nil, err
	}
	value &^= m.quiet
	for _, b := range m.bits {
		if value == 0 {
			return false, nil
		}
		if value&b.set != 0 {
			f.found(line{b.reason, b.health})
			value &^= b.set
		}
	}
	if value != 0 {
		f.valued(m.other, fmt.Sprintf("%#x", value))
	}
	return false, nil
}

func (m mask) lines() []line {
	lines := []line{m.other}
	for _, b := range m.bits {
		lines = append(lines, line{b.reason, b.health})
	}
	return lines
}

func (m mask) worst() line {
	worst := m.other
	for _, b := range m.bits {
		if b.health > worst.health {
			worst = line{b.reason, b.health}
		}
	}
	return worst
}

// values decodes a hexadecimal value by a table of known values.
type values struct {
	good, dead uint64
	bad        []value
}

type value struct {
	is     uint64
	reason string
	health inventory.Health
}

func (v values) decode(s string, f *findings) (dead bool, err error) {
	got, err := sysfs.ParseMask(s)
	if err != nil || got == v.good || got == v.dead {
		return err == nil && got == v.dead, err
	}
	for _, b := range v.bad {
		if got == b.is {
			f.found(line{b.reason, b.health})
			return false, nil
		}
	}
	allowed := []uint64{v.good}
	for _, b := range v.bad {
		allowed = append(allowed, b.is)
	}
	return false, fmt.Errorf("found %#x, want one of %#x", got, allowed)
}

func (v values) lines() []line {
	var lines []line
	for _, b := range v.bad {
		lines = append(lines, line{b.reason, b.health})
	}
	return lines
}

func (v values) worst() line {
	worst := line{}
	for _, b := range v.bad {
		if b.health > worst.health {
			worst = line{b.reason, b.health}
		}
	}
	return worst
}

// flag decodes 0, or 1 if the condition of its line is present.
type flag line

func (l flag) decode(s string, f *findings) (dead bool, err error) {
	set, err := parseFlag(s)
	if set {
		f.found(line(l))
	}
	return false, err
}

func (l flag) lines() []line { return []line{line(l)} }
func (l flag) worst() line   { return line(l) }

func parseFlag(s string) (bool, error) {
	switch s {
	case "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fmt.Errorf("%s is not a flag, want 0 or 1", sysfs.Quote(s))
}

// states decodes the name of a state. A state that ends in " error" is a failure.
type states struct {
	failed line
	known  []string
	busy   []string // states while the card is programmed
}

func (st states) decode(s string, f *findings) (dead bool, err error) {
	switch {
	case slices.Contains(st.known, s), slices.Contains(st.busy, s):
	case strings.HasSuffix(s, " error"):
		f.found(st.failed)
	default:
		return false, fmt.Errorf("%s is not a state, want one of %q or one that ends in \" error\"", sysfs.Quote(s), slices.Concat(st.known, st.busy))
	}
	return false, nil
}

func (st states) lines() []line { return []line{st.failed} }
func (st states) worst() line   { return st.failed }

// parseTotal returns the count that follows label on a line of its own, or the only number if
// label is "".
func parseTotal(s, label string) (uint64, error) {
	for l := range strings.Lines(s) {
		number, ok := strings.CutPrefix(strings.TrimSuffix(l, "\n"), label)
		if !ok || label != "" && !strings.HasPrefix(number, " ") {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimPrefix(number, " "), 10, 64); err == nil {
			return n, nil
		}
		break
	}
	return 0, fmt.Errorf("%s has no count of errors, want %q and a decimal number", sysfs.Quote(s), label)
}
