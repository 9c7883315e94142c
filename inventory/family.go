package inventory

import (
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Family knows one kind of driver: where its cards stand and how one is read.
// It is stateless and safe for concurrent use; every call reads afresh.
type Family interface {
	// Name is short, lower case and stable: it is in logs and listings.
	Name() string

	// Signals returns the sources of news about this family's cards.
	Signals() Signals

	// Rows returns the family's health table. Each [Condition.Row] of its readings is "" or
	// the name of one of these rows.
	Rows() []Row

	// Cards lists the family's cards by their PCI address (DDDD:BB:DD.F). It
	// reads directories and links only, nothing that a dead card could hold up.
	// A host without the driver has no cards and no error. Cards that could be
	// listed are returned beside the error that hides others.
	Cards(sysfs.Host) ([]string, error)

	// Read reads one card. A card that is not there, or not this family's, is
	// an error that wraps fs.ErrNotExist. Any other error says that the card
	// could not be read: what was known of it stays. Trouble with one unit is
	// no error but a condition of that unit. If a reading met the daemon's own trouble
	// ([sysfs.OwnTrouble]), Read returns that error, or a reading with it in the Err of a
	// condition. The whole reading is then discarded.
	Read(host sysfs.Host, card string) (Reading, error)

	// Outline returns the units of a card without asking the card: from
	// directories and links, as for Cards. It serves a card that cannot be read;
	// whatever takes an attribute to know is not known. Errors are as for Read.
	Outline(host sysfs.Host, card string) (Reading, error)
}

// Signals are the sources of news that a family needs beside the PCI and FPGA
// subsystems that are always listened to.
type Signals struct {
	Subsystems []string // uevent SUBSYSTEM values
	Nodes      []string // prefixes of the names of device nodes, e.g. "dfl-"
}

// Row is one line of a family's health table: a reason that the family reads from its
// hardware. An operator may overrule its severity ([Policy.Severity]).
type Row struct {
	Name   string // NAME=VALUE; NAME where there is no value, or the values are open
	Health Health // how bad the reason makes a device
}

// Reading is one card as it was read at one moment.
type Reading struct {
	// PhysFn is the PCI address of the physical function when the card is a
	// virtual one, else "". News about it concerns this card too.
	PhysFn string
	Units  []Unit // in the order of the driver's numbers

	// Observed has the observations that a check of the card compares with the present
	// state, in this order, at the health interval. While none differs, this reading still
	// holds; at the first difference the card is read. A change of other files is found by
	// the readings at a hint, at the resync, and while something is wrong with the card.
	// Empty: the card is never checked, always read.
	//
	// A file that may be read only while another one has a certain value must come after
	// that one.
	Observed []sysfs.Observation
}

// OwnTrouble returns the first error among the conditions that is the daemon's own
// trouble, not the card's, or nil if there is none.
func (r Reading) OwnTrouble() error {
	for _, u := range r.Units {
		for _, c := range u.Conditions {
			if sysfs.OwnTrouble(c.Err) {
				return c.Err
			}
		}
	}
	return nil
}

// answers reports whether all of the card that was asked has answered.
func (r Reading) answers() bool {
	for _, u := range r.Units {
		if slices.ContainsFunc(u.Conditions, func(c Condition) bool { return c.Dead }) {
			return false
		}
	}
	return true
}

// Unit is what becomes one device, as it was read at one moment: a port, an FME with all
// its ports, or a unit of a pool. What could not be read is marked as
// not known, and keeps the value that it had for as long as the directory lives.
type Unit struct {
	// ID is the device's identity where the family gives one. Families with PCI
	// cards leave it empty: identity is then the card's address and PortID.
	ID string
	// Name is its directory, for people. It holds the driver's running
	// number, which is reused: never an identity.
	Name string
	// Incarnation differs when a directory of the same name is another one
	// (its inode number).
	Incarnation uint64

	PortID           int
	PortIDKnown      bool
	AFUID            string // "" with AFUIDKnown: there is none
	AFUIDKnown       bool
	InterfaceID      string
	InterfaceIDKnown bool

	PCIID       string // as in [Device]; "" where it cannot be known
	NUMANode    int    // -1: none
	Nodes       []string
	NodeNumbers []string // as in [Device]
	Parent      string
	ParentNodes []string

	// Annotations are those of each container that is given the unit. Do not change them.
	Annotations map[string]string

	// Partial means that it has fewer ports than its FME can have: some belong to
	// virtual functions, or are yet to come.
	Partial bool

	// What is wrong with the unit, and with the card that it is a part of.
	Conditions []Condition
	Files      []HealthFile
	Counters   []Counter
}

// HealthFile is a health file that was asked for. One that was never there is
// not judged; one that was there and is gone is a condition. One that a reading
// does not name was not asked for, and is judged neither way.
type HealthFile struct {
	Name   string // e.g. errors/errors; unique among the unit's
	Absent bool
	Lost   Health // how bad it is when a file that was there is gone
	Row    string // where Lost comes from, see [Condition]
	Reason string // for a file that is gone; "": unreadable=Name
}

// Counter is a count of errors that the kernel keeps and never sets back. What
// it was when the unit was first seen is nobody's fault; a rise is a condition.
type Counter struct {
	Name   string // unique among the unit's
	Value  uint64
	Reason string // while it rises
	Health Health
	Row    string // where Health comes from, see [Condition]
}
