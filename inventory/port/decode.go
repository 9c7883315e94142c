package port

import (
	"fmt"
	"slices"
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
	// rows returns the rows of the table.
	rows() []inventory.Row
	// worst returns the row that a file counts as if it cannot be read.
	worst() inventory.Row
}

// mask decodes a hexadecimal value of 64 bits. Each bit that is set is a condition.
type mask struct {
	bits  []field
	other inventory.Row // for the bits without a row: NAME, to which =0x… is added
	quiet uint64        // bits that have no meaning for health
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
			f.AddRow(row(b.reason, b.health))
			value &^= b.set
		}
	}
	if value != 0 {
		f.AddValue(m.other, fmt.Sprintf("%#x", value))
	}
	return false, nil
}

func (m mask) rows() []inventory.Row {
	rows := []inventory.Row{m.other}
	for _, b := range m.bits {
		rows = append(rows, row(b.reason, b.health))
	}
	return rows
}

func (m mask) worst() inventory.Row {
	worst := m.other
	for _, b := range m.bits {
		if b.health > worst.Health {
			worst = row(b.reason, b.health)
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
			f.AddRow(row(b.reason, b.health))
			return false, nil
		}
	}
	allowed := []uint64{v.good}
	for _, b := range v.bad {
		allowed = append(allowed, b.is)
	}
	return false, fmt.Errorf("found %#x, want one of %#x", got, allowed)
}

func (v values) rows() []inventory.Row {
	var rows []inventory.Row
	for _, b := range v.bad {
		rows = append(rows, row(b.reason, b.health))
	}
	return rows
}

func (v values) worst() inventory.Row {
	worst := inventory.Row{}
	for _, b := range v.bad {
		if b.health > worst.Health {
			worst = row(b.reason, b.health)
		}
	}
	return worst
}

// flag decodes 0, or 1 if the condition of its row is present.
type flag inventory.Row

func (l flag) decode(s string, f *findings) (dead bool, err error) {
	set, err := parseFlag(s)
	if set {
		f.AddRow(inventory.Row(l))
	}
	return false, err
}

func (l flag) rows() []inventory.Row { return []inventory.Row{inventory.Row(l)} }
func (l flag) worst() inventory.Row  { return inventory.Row(l) }

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
	failed inventory.Row
	known  []string
	busy   []string // states while the card is programmed
}

func (st states) decode(s string, f *findings) (dead bool, err error) {
	switch {
	case slices.Contains(st.known, s), slices.Contains(st.busy, s):
	case strings.HasSuffix(s, " error"):
		f.AddRow(st.failed)
	default:
		return false, fmt.Errorf("found %s, want one of %q or a state that ends in \" error\"", sysfs.Quote(s), slices.Concat(st.known, st.busy))
	}
	return false, nil
}

func (st states) rows() []inventory.Row { return []inventory.Row{st.failed} }
func (st states) worst() inventory.Row  { return st.failed }
