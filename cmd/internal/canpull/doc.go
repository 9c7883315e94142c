// Package canpull answers whether a card may be pulled.
//
//	card, err := canpull.Read("/sys", "0000:3b:00.0")
//	…                       // ask the daemon (package control), search processes (package procusers)
//	answer := canpull.Judge(facts)
//
// A pull removes all functions in the slot and their virtual functions. So the answer covers all of them, and devices
// of other cards that have one of these functions as a member. The address of a virtual function stands for its
// physical function.
//
// The answer is yes only if all facts are known and none of them speaks against a pull.
//
// The package owns no state. Read blocks only for sysfs, and reads no file whose content comes from the hardware. Judge
// does not block.
package canpull
