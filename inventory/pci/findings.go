package pci

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Findings contains the results of reading one part of a card, for use in [inventory.Unit] and [inventory.Reading].
type Findings struct {
	Conditions []inventory.Condition
	Files      []inventory.HealthFile
	Counters   []inventory.Counter
	Observed   []sysfs.Observation
}

// NewFindings returns empty findings, with room for one part's health files.
func NewFindings() Findings {
	const most = 16
	return Findings{Files: make([]inventory.HealthFile, 0, most), Observed: make([]sysfs.Observation, 0, most)}
}

// AddFile adds a health file and reports whether it is absent. err is the error from reading the file, and worst is the
// row that applies if the file is lost.
func (f *Findings) AddFile(name string, worst inventory.Row, err error) (absent bool) {
	absent = errors.Is(err, fs.ErrNotExist)
	f.Files = append(f.Files, inventory.HealthFile{Name: name, Absent: absent, Lost: worst.Health, Row: worst.Name})
	return absent
}

// Observe adds an observation, which a check later compares with the current state.
func (f *Findings) Observe(o sysfs.Observation) { f.Observed = append(f.Observed, o) }

// ReadAs reads and parses the attribute at path, like [sysfs.ReadAs], and observes its value.
func ReadAs[T any](f *Findings, path string, parse func(string) (T, error)) (T, error) {
	return sysfs.ReadAs(path, func(value string) (T, error) {
		f.Observe(sysfs.ObserveValue(path, value))
		return parse(value)
	})
}

// Add adds a condition unless there already is one with the same reason, because two files may show the same condition.
func (f *Findings) Add(c inventory.Condition) {
	if !slices.ContainsFunc(f.Conditions, func(old inventory.Condition) bool { return old.Reason == c.Reason }) {
		f.Conditions = append(f.Conditions, c)
	}
}

// AddRow adds a row's condition.
func (f *Findings) AddRow(r inventory.Row) {
	f.Add(inventory.Condition{Reason: r.Name, Health: r.Health, Row: r.Name})
}

// AddValue adds a row's condition with value as part of its reason (NAME=VALUE).
func (f *Findings) AddValue(r inventory.Row, value string) {
	f.Add(inventory.Condition{Reason: r.Name + "=" + value, Health: r.Health, Row: r.Name})
}

// AddDead adds a row's condition, and marks it as coming from a part that doesn't respond.
func (f *Findings) AddDead(r inventory.Row, err error) {
	f.Add(inventory.Condition{Reason: r.Name, Health: r.Health, Row: r.Name, Dead: true, Err: err})
}

// AddShortage adds a condition if err is a shortage ([sysfs.IsShortage]), and ignores any other error. The condition
// makes the caller discard the whole reading ([inventory.Reading.Shortage]).
func (f *Findings) AddShortage(err error) {
	if sysfs.IsShortage(err) {
		f.Conditions = append(f.Conditions, inventory.Condition{Reason: inventory.ReasonUnchecked, Health: inventory.Unhealthy, Err: err})
	}
}

// AddUnreadable adds the condition for a file that can't be read or whose value isn't valid.
func (f *Findings) AddUnreadable(name string, worst inventory.Row, err error) {
	f.Add(inventory.Condition{
		Reason: inventory.ReasonUnreadable + "=" + name, Health: worst.Health, Row: worst.Name, Err: err,
	})
}

// Prefix prepends prefix to the names of the files and counters. The reasons for files that are gone or can't be read
// don't change.
func (f *Findings) Prefix(prefix string) {
	for i := range f.Files {
		file := &f.Files[i]
		file.Reason = cmp.Or(file.Reason, inventory.ReasonUnreadable+"="+file.Name)
		file.Name = prefix + file.Name
	}
	for i := range f.Counters {
		f.Counters[i].Name = prefix + f.Counters[i].Name
	}
}

// Join adds another part's findings. If two conditions have the same reason, it keeps the first.
func (f *Findings) Join(o *Findings) {
	for _, c := range o.Conditions {
		f.Add(c)
	}
	f.Files = append(f.Files, o.Files...)
	f.Counters = append(f.Counters, o.Counters...)
	f.Observed = append(f.Observed, o.Observed...)
}
