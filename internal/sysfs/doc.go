// Package sysfs reads a node's sysfs tree and device directory, and parses the values.
//
// It owns no state; a [Host] is just two paths. Reading is separate from parsing, so the parsers are pure functions,
// which are fuzzed. A read may block for as long as the hardware behind the attribute doesn't respond, so it should be
// done in a goroutine that is allowed to block. This package never opens a device node, because while a device node is
// open, another program's open with O_EXCL fails, and the last close resets the AFU of the container that is using the
// node.
package sysfs
