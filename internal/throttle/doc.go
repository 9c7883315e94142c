// Package throttle keeps repeated trouble from flooding the log. A [Core] stands in
// front of the one that writes. Of the lines with the same event that speak of the
// same thing, which is what their fields device, pci, resource and source say, it
// passes on a burst within a minute, and counts the others; at the minute's end, and
// when the core is closed, a line log.suppressed says how many were left out.
//
// So what is written and what is counted is all that was logged. Debug lines are not
// touched, but for those of libraries, which are not ours to thin out. Neither is
// what makes the story of a device: no line of it is ever lost.
//
// The core owns a map of what is spoken of, which is bounded: where too much is, one
// count stands for all the rest of an event. It owns one timer, which runs only while
// something is left out, and which [Core.Close] awaits. Writing blocks for as long as
// the core behind does.
package throttle
