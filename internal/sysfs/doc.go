// Package sysfs reads a node's sysfs tree and its device directory, and parses the values.
//
// It owns no state: a [Host] is two paths. Reading is separate from parsing: the parsers are pure
// functions, and fuzzed. A read may block as long as the hardware behind the attribute does not
// answer, so the caller should read in a goroutine that may block. This package never opens a
// device node: while a node is open, an open with O_EXCL fails, and the last close resets the AFU of
// the container that was given the node.
package sysfs
