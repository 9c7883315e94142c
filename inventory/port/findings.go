package port

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// findings are what the files of one part say: of a port, its FME, or the PCI
// devices that it is reached through.
type findings struct {
	conditions []inventory.Condition
	files      []inventory.HealthFile
	counters   []inventory.Counter
	observed   []sysfs.Observation // for [inventory.Reading]
}

// someFiles is room for the health files of one part, so that the lists need not
// grow.
func someFiles() findings {
	const most = 16
	return findings{files: make([]inventory.HealthFile, 0, most), observed: make([]sysfs.Observation, 0, most)}
}

// file is a file that is judged: its name in readings, and what its value means.
type file struct {
	name string
	decoder
}

// judge reads the file at path and takes in what it says. dead is as for
// [decoder].
func (f *findings) judge(file file, path string) (dead bool) {
	value, err := sysfs.Read(path)
	return f.take(file, path, value, err)
}

// take takes in what reading the file at path gave.
func (f *findings) take(file file, path, value string, err error) (dead bool) {
	if f.asked(file.name, file.worst(), err) {
		return false
	}
	if err == nil {
		f.observe(sysfs.ObserveValue(path, value))
		if dead, err = file.decode(value, f); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		f.unreadable(file.name, file.worst(), err)
	}
	return dead
}

// asked takes note that a file was asked for. The result is whether there is
// none, by the error of reading it.
func (f *findings) asked(name string, worst line, err error) (absent bool) {
	absent = errors.Is(err, fs.ErrNotExist)
	f.files = append(f.files, inventory.HealthFile{Name: name, Absent: absent, Lost: worst.health, Row: worst.reason})
	return absent
}

// lost takes back that a file is there: it holds nothing. Where it held something
// once, the line holds.
func (f *findings) lost(name string, l line) {
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

// add takes in a condition, once: two files may tell the same.
func (f *findings) add(c inventory.Condition) {
	if !slices.ContainsFunc(f.conditions, func(old inventory.Condition) bool { return old.Reason == c.Reason }) {
		f.conditions = append(f.conditions, c)
	}
}

// found takes in that a line of the table holds.
func (f *findings) found(l line) {
	f.add(inventory.Condition{Reason: l.reason, Health: l.health, Row: l.reason})
}

// valued is found, with the value that a line leaves open.
func (f *findings) valued(l line, value string) {
	f.add(inventory.Condition{Reason: l.reason + "=" + value, Health: l.health, Row: l.reason})
}

// dead takes in a line that says that the part does not answer at all.
func (f *findings) dead(l line, err error) {
	f.add(inventory.Condition{Reason: l.reason, Health: l.health, Row: l.reason, Dead: true, Err: err})
}

// starve adds a condition if err is the daemon's own trouble, and ignores any other error.
// The condition makes the whole reading void ([inventory.Reading.Shortage]).
func (f *findings) starve(err error) {
	if sysfs.IsShortage(err) {
		f.conditions = append(f.conditions, inventory.Condition{Reason: inventory.ReasonUnchecked, Health: fatal, Err: err})
	}
}

// unreadable takes in that a file cannot be read, or holds what it may not hold.
func (f *findings) unreadable(name string, worst line, err error) {
	f.add(inventory.Condition{
		Reason: inventory.ReasonUnreadable + "=" + name, Health: worst.health, Row: worst.reason, Err: err,
	})
}
