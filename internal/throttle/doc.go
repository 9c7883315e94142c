// Package throttle keeps repeated lines from flooding the log. A [Core] stands in front of the
// core that writes. It writes a burst of the lines with the same level, event and subject (the
// fields device, pci, resource and source) in a minute, and counts the others. Within a minute,
// and when the core is closed, it writes a line log.suppressed with each number.
//
// All that is logged is written or counted. Lines about a device are always written, and so are
// debug lines, except those of libraries.
//
// The core owns a map of counts, which is bounded, and one timer, which runs only while the map
// has entries. [Core.Close] awaits it. Writing blocks as long as the core behind does.
//
// The sampler of zapcore decides. It has a fixed number of counters, so two subjects may share
// one, and then share a burst.
package throttle
