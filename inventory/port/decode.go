package port

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// decoder decodes the value of a file. All kinds of decoders are in this file.
type decoder interface {
	// decode adds the conditions of the value to f. It returns an error if the value is not valid.
	// dead reports that the value is that of a part that does not answer; such a value has no
	// other meaning.
	decode(value string, f *findings) (dead bool, err error)
	// lines returns the lines of the table.
	lines() []line
	// worst returns the line that a file counts as if it cannot be read.
	worst() line
}

// mask decodes a hexadecimal value of 64 bits. Each bit that is set is a condition.
type mask struct {
	bits  []field
	other line   // for the bits without a line: NAME, to which =0x… is added
	quiet uint64 // bits that have no meaning for health
}

type field struct {
	set    uint64 // the field is set if one of these bits is
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
			f.addLine(line{b.reason, b.health})
			value &^= b.set
		}
	}
	if value != 0 {
		f.addValue(m.other, fmt.Sprintf("%#x", value))
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
			f.addLine(line{b.reason, b.health})
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
		f.addLine(line(l))
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
	return false, fmt.Errorf("found %s, want 0 or 1", sysfs.Quote(s))
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
		f.addLine(st.failed)
	default:
		return false, fmt.Errorf("found %s, want one of %q or a state that ends in \" error\"", sysfs.Quote(s), slices.Concat(st.known, st.busy))
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
	want := "a decimal number"
	if label != "" {
		want = strconv.Quote(label) + " and a decimal number"
	}
	return 0, fmt.Errorf("found %s, want %s", sysfs.Quote(s), want)
}
