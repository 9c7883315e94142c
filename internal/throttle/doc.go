// Package throttle limits repeated log lines. A [Core] passes lines on to the core that writes
// them. Of the lines with the same event and subject (the fields device, pci, resource and source)
// it writes a burst in a minute, and counts the others. At the end of the minute, and when the core
// is closed, it writes a line log.suppressed for each subject, with the number of its suppressed
// lines.
//
// Every line is written or counted. Lines about a device are always written, and so are
// debug lines, except those of libraries.
//
// The core owns a map of counts, which is bounded, and one timer, which runs only while the map
// has entries. [Core.Close] waits for the timer. Writing blocks as long as the other core does.
package throttle
