// Package sysfs reads a node's sysfs tree and device directory, and parses what
// stands in them.
//
// It owns no state: a [Host] is two paths. Reading and parsing are kept apart:
// parsers are pure and fuzzed. Every read may block for as long as the hardware
// behind the attribute pleases; the caller decides in which goroutine that
// happens. Nothing here ever opens a device node: an open makes O_EXCL openers
// fail, and the last close resets the AFU under its tenant.
package sysfs
