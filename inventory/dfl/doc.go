// Package dfl is the family of cards with the in-tree DFL driver of the kernel
// (drivers/fpga/dfl*.c).
//
// A card is a PCI function with a base region: an entry of the class fpga_region whose device link leads to the PCI
// device. The class also contains a region for each port below an FME, which is not a base region. Several functions of
// one board are several cards. A card without a port has no device, unless it has an FME and is read by regions.
//
// The package owns no state. Listing cards reads only links. Reading a card may block as long as
// the hardware behind an attribute does not answer.
package dfl
