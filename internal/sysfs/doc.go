// Package sysfs reads a node's sysfs tree and device directory, and parses the values.
//
// It owns no state: a [Host] is just two paths. Reading is separate from parsing; the parsers are pure functions and
// are fuzzed. A read may block for as long as the hardware behind the attribute doesn't answer, so the caller should
// read in a goroutine that is allowed to block. This package never opens a device node. While a node is open, an open
// with O_EXCL fails, and the last close resets the AFU of the container that was given the node.
package sysfs
