package inventory

import (
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Family lists and reads the cards of one kind of driver. It is stateless and safe for
// concurrent use; every call reads sysfs again. The list of all families is daemon/families.go.
type Family interface {
	// Name returns the name of the family: short, lower case and stable, because logs and
	// listings show it.
	Name() string

	// Signals returns the sources of hints about this family's cards.
	Signals() Signals

	// Rows returns the family's health table. Each [Condition.Row] of its readings is "" or
	// the name of one of these rows.
	Rows() []Row

	// Cards lists the family's cards by their PCI address (DDDD:BB:DD.F). It
	// reads directories and links only, because reading an attribute of a dead card may hang.
	// A host without the driver has no cards and no error. If some cards cannot be
	// listed, Cards returns the others and an error.
	Cards(sysfs.Host) ([]string, error)

	// Read reads one card. If the card does not exist or belongs to another family, it returns an error that wraps
	// fs.ErrNotExist. Any other error means that the card could not be read: its devices keep their state. A problem of
	// one unit is a condition of that unit, not an error. If a reading fails because of a shortage
	// ([sysfs.IsShortage]), Read returns that error, or a reading with a condition that contains the error. The whole
	// reading is then discarded.
	Read(host sysfs.Host, card string) (Reading, error)

	// Outline returns the units of a card that cannot be read. Like Cards, it reads only directories and links. The
	// values of attributes are marked as not known. It returns the same errors as Read.
	Outline(host sysfs.Host, card string) (Reading, error)
}

// Signals are the sources of hints that a family needs in addition to the uevents of the PCI
// and FPGA subsystems, which are always used.
type Signals struct {
	Subsystems []string // uevent SUBSYSTEM values
	Nodes      []string // prefixes of the names of device nodes, e.g. "dfl-" and "vfio/"
}

// Row is one line of a family's health table: a reason that the family reads from its
// hardware. An administrator may overrule its severity ([Policy.Severity]).
type Row struct {
	Name   string // NAME=VALUE, or NAME if the reason has no value or any value
	Health Health // severity: Degraded or Unhealthy
}

// Reading is the result of reading one card.
type Reading struct {
	// Related lists the PCI addresses of other functions whose events also concern this card, such as the physical
	// function of a virtual one. They need not exist. After a reading without units, the functions in Related that no
	// family has listed are read as well.
	Related []string
	Units   []Unit // in the order of the driver's numbers; may be empty

	// Observed contains the observations that a check of the card compares with the present state, in this order, at
	// each health interval. If all hold, this reading is still valid; otherwise the card is read. Changes of other
	// files are found when the card is read after a hint, at the resync, or because it has a condition. If Observed is
	// empty, the card is read instead of checked.
	//
	// A file that may be read only while another file has a certain value must come after
	// that file.
	Observed []sysfs.Observation
}

// Shortage returns the first error of a condition that is a shortage ([sysfs.IsShortage]), or nil if
// there is none.
func (r Reading) Shortage() error {
	for _, u := range r.Units {
		for _, c := range u.Conditions {
			if sysfs.IsShortage(c.Err) {
				return c.Err
			}
		}
	}
	return nil
}

// answers reports whether no part of the card is dead.
func (r Reading) answers() bool {
	for _, u := range r.Units {
		if slices.ContainsFunc(u.Conditions, func(c Condition) bool { return c.Dead }) {
			return false
		}
	}
	return true
}

// Unit is the part of a card that becomes one device: a port, an FME with all its ports, the
// functions of an IOMMU group, or a unit of a pool. A value that could not be read is marked as not
// known; the device then keeps the last known value as long as the unit's directory exists.
type Unit struct {
	// ID is the device's id if the family chooses it. Families with ports leave it empty: the id is
	// then made of the card's address and PortID.
	ID string
	// PCIAddress is as in [Device]. It is used only if ID is not empty; otherwise it is the card's address.
	PCIAddress string
	// Name is the name of the unit's directory, for display. It contains the driver's running number, which is reused,
	// so it does not identify a device.
	Name string
	// Incarnation is the inode number of the directory. A later directory of the same name has
	// another one.
	Incarnation uint64

	// Facts are as in [Device]. An attribute that is missing from a reading keeps its value as long as the unit's
	// directory exists; the value "" means that there is none.
	Facts
	PortIDKnown      bool
	AFUIDKnown       bool // with AFUID "": the unit has none
	InterfaceIDKnown bool

	// Partial means that the unit has fewer ports than its FME can have: the others belong to
	// virtual functions, or have not been created yet.
	Partial bool

	// Conditions are the problems of the unit, and of the card that it is a part of.
	Conditions []Condition
	Files      []HealthFile
	Counters   []Counter
}

// HealthFile is a health file that a reading has tried to read. A file that has never existed is not a condition. A
// file that existed and is gone is one. A file that is not in a reading keeps its state.
type HealthFile struct {
	Name   string // e.g. errors/errors; unique within the unit
	Absent bool
	Lost   Health // severity if the file existed and is gone
	Row    string // the row of Lost, as in [Condition]
	Reason string // the reason if the file is gone; "": unreadable=Name
}

// Counter is a count of errors that the kernel never resets. Its first value is not a condition; a rise is one.
type Counter struct {
	Name   string // unique within the unit
	Value  uint64
	Reason string // of the condition
	Health Health // of the condition
	Row    string // the row of Health, as in [Condition]
}
