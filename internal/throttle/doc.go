// Package throttle limits repeated log lines. A [Core] passes lines on to the core that writes them. Lines with the
// same event and subject (the fields device, pci, resource and source) are counted together. In each minute, the core
// writes each subject's first lines and just counts the rest. At the end of the minute, and when the core is closed, it
// writes a log.suppressed line for each subject, with the number of suppressed lines.
//
// Every line is either written or counted. Lines about a device are always written. So are debug lines, except those of
// libraries.
//
// Zap's own sampler can't do this, because it makes its decision based on the message, before it knows the fields. A
// card that fails repeatedly would hide other cards' failures.
//
// The core owns a map of this minute's subjects, which are parts of the node, and a timer, which runs only while the
// map has entries. Writing blocks for as long as the other core does.
package throttle
