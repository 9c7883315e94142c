// Package canpull answers whether a card may be pulled.
//
//	card, err := canpull.Read("/sys", "0000:3b:00.0")
//	…                       // ask the daemon, look at processes
//	answer := canpull.Judge(facts)
//
// A card is pulled whole. So the question is asked for each function in its slot, and for their
// virtual functions; if the address is that of a virtual function, for its physical one.
//
// An answer is yes only if nothing speaks against it and all that could is known. It owns no state.
// Read blocks only for sysfs, and reads no file that the hardware answers.
package canpull
