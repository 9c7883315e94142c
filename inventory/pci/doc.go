// Package pci reads the PCI function of a card for the families: its driver, its config space, its link, and the
// error counters from the root port to the card. [Findings] collect what a family finds in the files of a part of a
// card.
//
// There is no list of ids: a family finds its cards by their driver or class, so a new card of a known driver needs no
// code. Only aws goes by ids (aws/slot.go).
//
// The package owns no state. A reading may block as long as the function does not answer.
package pci
