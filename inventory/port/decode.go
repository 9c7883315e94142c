package port

import (
	"fmt"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// decoder decodes a file's value. All implementations are in this file.
type decoder interface {
	// decode adds the conditions that value stands for to f. It returns an error if value isn't valid. dead is true if
	// value only shows that the part doesn't respond; decode then adds no conditions.
	decode(value string, f *findings) (dead bool, err error)
	// rows returns the health table rows that the decoder uses.
	rows() []inventory.Row
	// worst returns the row that applies if the file can't be read.
	worst() inventory.Row
}

// mask decodes a 64-bit hexadecimal value in which each set bit is a condition.
type mask struct {
	bits  []field
	other inventory.Row // for bits without a row; =0x… is appended to its name
	quiet uint64        // bits that don't matter for health
}

// field is a value or a set of bits, together with the row that it stands for.
type field struct {
	set    uint64 // the value; in a mask, the field is set if any of these bits is
	reason string
	health inventory.Health
}

func (b field) row() inventory.Row { return row(b.reason, b.health) }

// rowsOf appends the rows of fields to rows.
func rowsOf(rows []inventory.Row, fields []field) []inventory.Row {
	for _, b := range fields {
		rows = append(rows, b.row())
	}
	return rows
}

// worstOf returns the worst of these rows: other and the fields' rows.
func worstOf(other inventory.Row, fields []field) inventory.Row {
	for _, b := range fields {
		if b.health > other.Health {
			other = b.row()
		}
	}
	return other
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
			f.AddRow(b.row())
			value &^= b.set
		}
	}
	if value != 0 {
		f.AddValue(m.other, fmt.Sprintf("%#x", value))
	}
	return false, nil
}

func (m mask) rows() []inventory.Row { return rowsOf([]inventory.Row{m.other}, m.bits) }
func (m mask) worst() inventory.Row  { return worstOf(m.other, m.bits) }

// values decodes a hexadecimal value using a table of known values.
type values struct {
	good, dead uint64
	bad        []field
}

func (v values) decode(s string, f *findings) (dead bool, err error) {
	got, err := sysfs.ParseMask(s)
	if err != nil || got == v.good || got == v.dead {
		return err == nil && got == v.dead, err
	}
	for _, b := range v.bad {
		if got == b.set {
			f.AddRow(b.row())
			return false, nil
		}
	}
	allowed := []uint64{v.good}
	for _, b := range v.bad {
		allowed = append(allowed, b.set)
	}
	return false, fmt.Errorf("found %#x, want one of %#x", got, allowed)
}

func (v values) rows() []inventory.Row { return rowsOf(nil, v.bad) }
func (v values) worst() inventory.Row  { return worstOf(inventory.Row{}, v.bad) }

// flag decodes 0 or 1, where 1 means that the row's condition is present.
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
	busy   []string // states that the card is in while it is being programmed
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
