// Package port reads the dfl and opae families' cards: PCI cards with ports and a management engine (FME) below them in
// sysfs.
//
// A [Layout] describes where a driver's cards are in sysfs. It lists a host's cards and reads a card's ports (identity,
// node and health), its FME and, through package pci, the PCI devices from the root port to the card. The layout's
// [Kind] decides whether a unit is a port or an FME with all its ports. A single table contains the health files, the
// meanings of their values and the severities (severities.go, [Layout.Rows]). To support a new file or bit, add a row
// to the table.
//
// The package owns no state. Listing cards reads only directories and links. Reading a card may block for as long as
// the hardware behind an attribute doesn't answer.
package port
