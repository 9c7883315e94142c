// Package throttle keeps repeated lines from flooding the log. A [Core] stands in front of the
// core that writes. Of the lines with the same event and subject (the fields device, pci,
// resource and source) it writes a burst in a minute, and counts the others. At the end of the
// minute, and when the core is closed, it writes a line log.suppressed with each number.
//
// Every line is written or counted. Lines about a device are always written, and so are
// debug lines, except those of libraries.
//
// The core owns a map of counts, which is bounded, and one timer, which runs only while the map
// has entries. [Core.Close] awaits it. Writing blocks as long as the core behind does.
package throttle
