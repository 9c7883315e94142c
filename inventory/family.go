package inventory

import (
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Family lists and reads the cards of one kind of driver. It is stateless and safe for
// concurrent use; every call reads sysfs again.
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

	// Read reads one card. If the card does not exist or belongs to another family, it
	// returns an error that wraps fs.ErrNotExist. Any other error means that the card
	// could not be read: its devices keep their state. Trouble with one unit is
	// no error but a condition of that unit. If a reading fails with the daemon's own trouble
	// ([sysfs.IsShortage]), Read returns that error, or a reading with it in the Err of a
	// condition. The whole reading is then discarded.
	Read(host sysfs.Host, card string) (Reading, error)

	// Outline returns the units of a card that cannot be read. It reads directories and links
	// only, as Cards does, and leaves all that is in attributes unknown. Its errors are those
	// of Read.
	Outline(host sysfs.Host, card string) (Reading, error)
}

// Signals are the sources of hints that a family needs in addition to the uevents of the PCI
// and FPGA subsystems, which are always used.
type Signals struct {
	Subsystems []string // uevent SUBSYSTEM values
	Nodes      []string // prefixes of the names of device nodes, e.g. "dfl-"
}

// Row is one line of a family's health table: a reason that the family reads from its
// hardware. An administrator may overrule its severity ([Policy.Severity]).
type Row struct {
	Name   string // NAME=VALUE; NAME if there is no value, or any value
	Health Health // how bad the reason makes a device
}

// Reading is the result of reading one card.
type Reading struct {
	// PhysFn is the PCI address of the physical function if the card is a virtual function,
	// else "". Hints for it concern this card too.
	PhysFn string
	Units  []Unit // in the order of the driver's numbers

	// Observed has the observations that a check of the card compares with the present
	// state, in this order, at the health interval. While none differs, this reading is
	// valid; at the first difference the card is read. A change of other files is found by
	// the readings at a hint, at the resync, and while the card has a condition.
	// If Observed is empty, the card is read instead of checked.
	//
	// A file that may be read only while another file has a certain value must come after
	// that file.
	Observed []sysfs.Observation
}

// IsShortage returns the first error among the conditions that is the daemon's own
// trouble, not the card's, or nil if there is none.
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

// Unit is the part of a card that becomes one device: a port, an FME with all its ports, or a
// unit of a pool. A value that could not be read is marked as not known; the device then keeps
// the last known value as long as the unit's directory exists.
type Unit struct {
	// ID is the device's id if the family chooses it. Families with PCI
	// cards leave it empty: the id is then made of the card's address and PortID.
	ID string
	// Name is the name of its directory, for people. It has the driver's running
	// number, which is reused, so it identifies no device.
	Name string
	// Incarnation is the inode number of the directory: it tells the directory from a later
	// one of the same name.
	Incarnation uint64

	PortID           int
	PortIDKnown      bool
	AFUID            string // "" with AFUIDKnown: there is none
	AFUIDKnown       bool
	InterfaceID      string
	InterfaceIDKnown bool

	PCIID       string // as in [Device]; "" if it is not known
	NUMANode    int    // -1: none
	Nodes       []string
	NodeNumbers []string // as in [Device]
	Parent      string
	ParentNodes []string

	ProgramAtStart bool // as in [Device]

	// Partial means that the unit has fewer ports than its FME can have: some belong to
	// virtual functions, or have not been created yet.
	Partial bool

	// Conditions are the problems of the unit, and of the card that it is a part of.
	Conditions []Condition
	Files      []HealthFile
	Counters   []Counter
}

// HealthFile is a health file that the reading has looked for. A file that has never existed
// is no condition; a file that existed and is gone is one. A file that is not in a reading was
// not looked for, and its state does not change.
type HealthFile struct {
	Name   string // e.g. errors/errors; unique among the unit's
	Absent bool
	Lost   Health // severity if the file existed and is gone
	Row    string // that Lost comes from, as in [Condition]
	Reason string // if the file is gone; "": unreadable=Name
}

// Counter is a count of errors that the kernel never resets. Its first value is no condition;
// a rise is one.
type Counter struct {
	Name   string // unique among the unit's
	Value  uint64
	Reason string // of the condition
	Health Health
	Row    string // that Health comes from, as in [Condition]
}
