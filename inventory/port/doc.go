// Package port reads what the families dfl and opae have in common: PCI cards
// with ports and a management engine (FME) below them in sysfs.
//
// A [Layout] says where a driver puts them; it lists a host's cards and reads
// one: the ports (identity, node and health), their FME, and the PCI
// devices that the card is reached through. A unit of a reading is a port or, by the
// [Kind] of the layout, an FME with all its ports. Which files are judged, what their
// values mean and how bad that is, is one table (policy.go, [Layout.Rows]): a line more
// is a file or a bit more that is judged.
//
// The package owns no state and remembers nothing between two readings. Listing
// cards reads directories and links only. Reading one may block for as long as
// the hardware behind an attribute pleases.
package port
