// Package story parses stories, which are tests in a small language. The steps of a story change the cards of a
// machine, and check which devices are sent to the kubelet.
//
// A story is a text file. Its first line is a comment, the title. Empty lines and other
// comments, which begin with #, are skipped. Each other line is a verb and its arguments,
// separated by blanks:
//
//	# A card comes and goes.
//	start
//	plug c0 a10 rp0
//	expect 01:00.0 healthy afu=d8424dc4
//	unplug c0
//	expect 01:00.0 gone
//	log device.removed device=01:00.0
//
// [Verbs] lists the verbs. Their arguments are in verbs.go, and ../../../docs/testing.md explains them. [Parse] returns
// an error for unknown verbs and wrong arguments, so such mistakes are found without a machine. The functions of this
// package have no side effects.
package story
