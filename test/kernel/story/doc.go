// Package story parses stories, which are tests written in a small language. A story's steps change a machine's cards
// and check which devices are sent to the kubelet.
//
// A story is a text file. The first line is a comment with the title. Empty lines and other comments, which start with
// #, are ignored. Every other line is a verb and its arguments, separated by spaces:
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
// package don't have side effects.
package story
