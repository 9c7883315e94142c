// Package story is the language of the stories: what happens to the cards of a
// machine, and what the kubelet must have been told of it.
//
// A story is a text of lines. The first, a comment, is its title; of the others,
// those that are empty or begin with # are passed over. A line is a verb and its
// arguments, separated by blanks:
//
//	# A card comes and goes.
//	start
//	plug c0 a10 rp0
//	expect 01:00.0 healthy afu=d8424dc4
//	unplug c0
//	expect 01:00.0 gone
//	log device.removed device=01:00.0
//
// [Verbs] lists the verbs, ../../../docs/testing.md explains them. [Parse] refuses
// what it does not know, so that a slip of the pen is found without a machine.
// Everything here is pure.
package story
