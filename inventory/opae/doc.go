// Package opae is the family of cards with Intel's out-of-tree driver intel-fpga-pci, which OPAE used
// before DFL was in the kernel.
//
// A card is a PCI function with an entry intel-fpga-dev.N in the class fpga. Its ports and its FME
// are directly below the entry, as in the family dfl, with other names.
//
// The package owns no state. Listing cards reads only links. Reading a card may block as long as
// the hardware behind an attribute does not answer.
package opae
