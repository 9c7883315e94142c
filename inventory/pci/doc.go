// Package pci reads a card's PCI function for the families: its driver, its config space, its link, and the error
// counters from the root port to the card. [Findings] collects what a family finds in the files that belong to one part
// of a card.
//
// There is no list of ids. Families find their cards by driver or class, so a new card that uses a known driver works
// without new code. Only aws identifies cards by their ids (aws/slot.go).
//
// The package owns no state. A reading may block for as long as the function doesn't respond.
package pci
