// Package opae is the family for cards that use Intel's out-of-tree driver intel-fpga-pci, which OPAE used before DFL
// was added to the kernel.
//
// A card is a PCI function with an intel-fpga-dev.N entry in the fpga class. Its ports and its FME are directly below
// that entry, as in the dfl family but with different names.
//
// The package owns no state. Listing cards reads only links. Reading a card may block for as long as the hardware
// behind an attribute doesn't respond.
package opae
