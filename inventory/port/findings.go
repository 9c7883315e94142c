package port

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// findings are the results of reading the files of one part: of a port, of its FME, or of the PCI
// devices from the root port to the card.
type findings struct {
	conditions []inventory.Condition
	files      []inventory.HealthFile
	counters   []inventory.Counter
	observed   []sysfs.Observation // for [inventory.Reading]
}

// newFindings returns findings with capacity for the health files of one part.
func newFindings() findings {
	const most = 16
	return findings{files: make([]inventory.HealthFile, 0, most), observed: make([]sysfs.Observation, 0, most)}
}

// file is a health file: its name in readings, and the decoder of its value.
type file struct {
	name string
	decoder
}

// judge reads the file at path and adds its conditions. dead is as for [decoder].
func (f *findings) judge(file file, path string) (dead bool) {
	value, err := sysfs.Read(path)
	return f.addResult(file, path, value, err)
}

// addResult adds the result of reading the file at path. dead is as for [decoder].
func (f *findings) addResult(file file, path, value string, err error) (dead bool) {
	if f.addFile(file.name, file.worst(), err) {
		return false
	}
	if err == nil {
		f.observe(sysfs.ObserveValue(path, value))
		if dead, err = file.decode(value, f); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		f.addUnreadable(file.name, file.worst(), err)
	}
	return dead
}

// addFile adds a health file, given the error of reading it, and reports whether the file is
// absent. worst is the line that the file counts as if it is lost.
func (f *findings) addFile(name string, worst line, err error) (absent bool) {
	absent = errors.Is(err, fs.ErrNotExist)
	f.files = append(f.files, inventory.HealthFile{Name: name, Absent: absent, Lost: worst.health, Row: worst.reason})
	return absent
}

// markAbsent marks a file of the findings as absent, because its value is unknown. If the value was
// known before, l becomes a condition.
func (f *findings) markAbsent(name string, l line) {
	for i := range f.files {
		if f.files[i].Name == name {
			f.files[i].Absent, f.files[i].Reason = true, l.reason
		}
	}
}

// observe adds an observation, which a check compares with the present state.
func (f *findings) observe(o sysfs.Observation) { f.observed = append(f.observed, o) }

// readAs reads and parses the attribute at path, as [sysfs.ReadAs], and observes its value.
func readAs[T any](f *findings, path string, parse func(string) (T, error)) (T, error) {
	return sysfs.ReadAs(path, func(value string) (T, error) {
		f.observe(sysfs.ObserveValue(path, value))
		return parse(value)
	})
}

// add adds a condition. It does nothing if there is one with the same reason: two files may have
// the same condition.
func (f *findings) add(c inventory.Condition) {
	if !slices.ContainsFunc(f.conditions, func(old inventory.Condition) bool { return old.Reason == c.Reason }) {
		f.conditions = append(f.conditions, c)
	}
}

// addLine adds the condition of a line of the table.
func (f *findings) addLine(l line) {
	f.add(inventory.Condition{Reason: l.reason, Health: l.health, Row: l.reason})
}

// addValue adds the condition of a line whose reason has no value, with this value.
func (f *findings) addValue(l line, value string) {
	f.add(inventory.Condition{Reason: l.reason + "=" + value, Health: l.health, Row: l.reason})
}

// addDead adds the condition of a line for a part that does not answer.
func (f *findings) addDead(l line, err error) {
	f.add(inventory.Condition{Reason: l.reason, Health: l.health, Row: l.reason, Dead: true, Err: err})
}

// addShortage adds a condition if err is a shortage ([sysfs.IsShortage]), and ignores any other
// error. Because of the condition the whole reading is discarded ([inventory.Reading.Shortage]).
func (f *findings) addShortage(err error) {
	if sysfs.IsShortage(err) {
		f.conditions = append(f.conditions, inventory.Condition{Reason: inventory.ReasonUnchecked, Health: fatal, Err: err})
	}
}

// addUnreadable adds the condition of a file that cannot be read, or whose value is not valid.
func (f *findings) addUnreadable(name string, worst line, err error) {
	f.add(inventory.Condition{
		Reason: inventory.ReasonUnreadable + "=" + name, Health: worst.health, Row: worst.reason, Err: err,
	})
}
