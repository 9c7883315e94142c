// Package dfl is the family for cards that use the kernel's in-tree DFL driver (drivers/fpga/dfl*.c).
//
// A card is a PCI function with a base region, which is an entry in the fpga_region class whose device link leads to
// the PCI device. (The class also contains a region for each port below an FME; these aren't base regions.) If a board
// has several such functions, each of them is a card. A card without ports has no device, unless it has an FME and is
// read by region.
//
// The package owns no state. Listing cards reads only links. Reading a card may block for as long as the hardware
// behind an attribute doesn't respond.
package dfl
