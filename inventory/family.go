package inventory

import (
	"slices"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Family lists and reads the cards that use one kind of driver. It is stateless and safe for concurrent use; every call
// reads sysfs again. All families are listed in daemon/families.go.
type Family interface {
	// Name returns the family's name, which appears in logs and listings. It is short, in lower case, and never
	// changes.
	Name() string

	// Signals returns the sources of hints about this family's cards.
	Signals() Signals

	// Rows returns the family's health table. In the family's readings, each [Condition.Row] is "" or the name of one
	// of these rows.
	Rows() []Row

	// Cards lists the family's cards by PCI address (DDDD:BB:DD.F). It reads only directories and links, because
	// reading an attribute of a dead card may hang. On a host without the driver, it returns no cards and no error. If
	// some cards can't be listed, Cards returns the others and an error.
	Cards(sysfs.Host) ([]string, error)

	// Read reads one card. If the card doesn't exist or belongs to another family, it returns an error that wraps
	// fs.ErrNotExist. Any other error means that the card couldn't be read, and its devices keep their state. A problem
	// with one unit is a condition of that unit, not an error. If a reading fails because of a shortage
	// ([sysfs.IsShortage]), Read returns that error, or a reading with a condition whose Err is that error. Either way,
	// the whole reading is discarded.
	Read(host sysfs.Host, card string) (Reading, error)

	// Outline returns the units of a card that can't be read. Like Cards, it reads only directories and links, so
	// attribute values are marked as not known. It returns the same errors as Read.
	Outline(host sysfs.Host, card string) (Reading, error)
}

// Signals lists a family's additional sources of hints. Uevents from the PCI and FPGA subsystems are always used.
type Signals struct {
	Subsystems []string // uevent SUBSYSTEM values
	Nodes      []string // name prefixes of device nodes, e.g. "dfl-" and "vfio/"
}

// Row is one line of a family's health table: a reason that the family reads from its hardware. An administrator can
// override its severity ([Policy.Severity]).
type Row struct {
	Name   string // NAME=VALUE, or just NAME if the reason has no value or can have any value
	Health Health // severity: Degraded or Unhealthy
}

// Reading is the result of reading one card.
type Reading struct {
	// Related lists the PCI addresses of other functions whose events also concern this card, such as a virtual
	// function's physical function. They need not exist. If the reading has no units, each function in Related that
	// hasn't been listed by a family is read too.
	Related []string
	Units   []Unit // in the order of the driver's numbers; may be empty

	// Observed is compared with the current state, in this order, when the card is checked at each health interval. If
	// everything matches, this reading is still valid; otherwise the card is read. Changes to other files aren't
	// noticed until the card is read after a hint, at a resync, or because it has a condition. If Observed is empty,
	// the card is always read in full.
	//
	// If a file is only safe to read while another file has a certain value, list it after that file.
	Observed []sysfs.Observation
}

// Shortage returns the first shortage ([sysfs.IsShortage]) among the conditions' errors, or nil if there is none.
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

// answers reports whether all parts of the card respond.
func (r Reading) answers() bool {
	for _, u := range r.Units {
		if slices.ContainsFunc(u.Conditions, func(c Condition) bool { return c.Dead }) {
			return false
		}
	}
	return true
}

// Unit is the part of a card that becomes one device: a port, an FME with all its ports, the functions in an IOMMU
// group, or a unit of a pool. A value that couldn't be read is marked as not known. The device then keeps the last
// known value for as long as the unit's directory exists.
type Unit struct {
	// ID is the device's id if the family chooses it. Families with ports leave it empty, and the id is then derived
	// from the card's address and PortID.
	ID string
	// PCIAddress becomes the device's PCIAddress, but only if ID is not empty. Otherwise the card's address is used.
	PCIAddress string
	// Name is the name of the unit's directory, for display. It contains a number that the driver assigns and later
	// reuses, so it doesn't identify a device.
	Name string
	// Incarnation is the inode number of the unit's directory. It changes if the directory is replaced by another one
	// with the same name.
	Incarnation uint64

	// Facts is published as part of the unit's [Device]. If an attribute is missing from a reading, the device keeps
	// the attribute's last value for as long as the unit's directory exists; "" means that the unit lacks the
	// attribute.
	Facts
	PortIDKnown      bool
	AFUIDKnown       bool // if true and AFUID is "", the unit has no AFU ID
	InterfaceIDKnown bool

	// Whole means that the unit is a whole card with all its ports. In other modes, the ports are units of their own.
	Whole bool
	// Partial means that the unit has fewer ports than its FME supports, because the others belong to virtual functions
	// or haven't been created yet.
	Partial bool

	// Conditions lists the problems with the unit and its card.
	Conditions []Condition
	Files      []HealthFile
	Counters   []Counter
}

// HealthFile is the result of one attempt to read a health file. A missing file is reported as a condition only if it
// existed before. Files that weren't read this time keep their state.
type HealthFile struct {
	Name   string // e.g. errors/errors; unique within the unit
	Absent bool
	Lost   Health // severity if the file existed and is gone
	Row    string // Lost's row, as in [Condition]
	Reason string // the reason if the file is gone; "" means unreadable=Name
}

// Counter is an error counter that the kernel never resets. Its first value isn't a condition, but any increase is.
type Counter struct {
	Name   string // unique within the unit
	Value  uint64
	Reason string // the condition's reason
	Health Health // the condition's severity
	Row    string // Health's row, as in [Condition]
}
