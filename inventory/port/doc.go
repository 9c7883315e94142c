// Package port reads the cards of the families dfl and opae: PCI cards with ports and a management
// engine (FME) below them in sysfs.
//
// A [Layout] describes where a driver's cards are in sysfs. It lists the cards of a host, and reads a card: its ports
// (identity, node and health), its FME and, through package pci, the PCI devices from the root port to the card. The
// [Kind] of the layout decides whether a unit of a reading is a port, or an FME with all its ports. One table contains
// the health files, the meanings of their values and the severities (severities.go, [Layout.Rows]). A new file or bit
// is a new row of the table.
//
// The package owns no state. Listing cards reads only directories and links. Reading a card may
// block as long as the hardware behind an attribute does not answer.
package port
