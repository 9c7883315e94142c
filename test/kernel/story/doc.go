// Package story parses stories, which are tests written in a small language. The steps of a story change the cards of a
// machine, and check which devices are sent to the kubelet.
//
// A story is a text file. Its first line is a comment with the title. Empty lines and other comments, which start with
// #, are ignored. Every other line is a verb followed by its arguments, separated by blanks:
//
//	# A card comes and goes.
//	start
//	plug c0 a10 rp0
//	expect 01:00.0 healthy afu=d8424dc4
//	unplug c0
//	expect 01:00.0 gone
//	log device.removed device=01:00.0
//
// [Verbs] lists the verbs. Their arguments are defined in verbs.go and explained in ../../../docs/testing.md. [Parse]
// rejects unknown verbs and invalid arguments, so that such mistakes are found without a machine. The functions in this
// package have no side effects.
package story
