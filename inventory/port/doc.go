// Package port reads the cards of the dfl and opae families, which have ports and a management engine (FME) below the
// PCI device in sysfs.
//
// A [Layout] says where in sysfs a driver's cards are. It lists a host's cards and reads a card's ports (identity, node
// and health), its FME and, through package pci, the PCI devices from the root port to the card. Its [Kind] decides
// whether a unit is a port or an FME with all its ports. The health files, the meanings of their values and their
// severities are all in one table (severities.go, [Layout.Rows]). To support a new file or bit, add a row to that
// table.
//
// The package owns no state. Listing cards reads only directories and links. Reading a card may block for as long as
// the hardware behind an attribute doesn't respond.
package port
