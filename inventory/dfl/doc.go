// Package dfl is the family of cards driven by the kernel's own DFL driver
// (drivers/fpga/dfl*.c).
//
// A card is a PCI function with a base region: an entry of class fpga_region
// whose device link is the PCI device. The regions below an FME, one for each
// port, are in the same class and are none. Several functions of one board are
// several cards; one without a port has no device, unless it has an FME and is read
// by regions.
//
// The package owns no state. Listing cards reads links; reading one may block
// for as long as the hardware behind an attribute pleases.
package dfl
