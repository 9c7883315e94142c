// Package port reads what the families dfl and opae have in common: PCI cards
// with ports and a management engine (FME) below them in sysfs.
//
// A [Layout] has the places of a driver's cards in sysfs. It lists the cards of a host and
// reads one card: the ports (identity, node and health), their FME, and the PCI
// devices on the way to the card. A unit of a reading is a port or, by the
// [Kind] of the layout, an FME with all its ports. One table has the health files, the meaning
// of their values and the severities (policy.go, [Layout.Rows]). Another file or bit is one
// more line of it.
//
// The package owns no state. Listing cards reads directories and links only. Reading a card
// may block for as long as the hardware behind an attribute takes.
package port
