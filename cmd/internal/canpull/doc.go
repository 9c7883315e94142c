// Package canpull determines whether it is safe to pull a card.
//
//	card, err := canpull.Read("/sys", "0000:3b:00.0")
//	…                       // ask the daemon (package control), search processes (package procusers)
//	answer := canpull.Judge(facts)
//
// Pulling a card removes all functions in the slot and their virtual functions. The answer covers all of these, as well
// as other cards' devices that include one of these functions. A virtual function's address stands for its physical
// function.
//
// The answer is yes only if all facts are known and none of them argues against pulling the card.
//
// The package owns no state. Read blocks only on sysfs, and doesn't read any files whose content comes from the
// hardware. Judge doesn't block.
package canpull
