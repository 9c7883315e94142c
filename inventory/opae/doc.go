// Package opae is the family of cards driven by Intel's out-of-tree driver
// (intel-fpga), the one that came with OPAE before DFL was in the kernel.
//
// A card is a PCI function with an entry intel-fpga-dev.N in class fpga. Ports
// and FME stand directly below it, as in the family dfl, under other names.
//
// The package owns no state. Listing cards reads links; reading one may block
// for as long as the hardware behind an attribute pleases.
package opae
