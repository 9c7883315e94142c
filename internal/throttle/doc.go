// Package throttle limits repeated log lines. A [Core] passes lines on to the core that writes
// them. Of the lines with the same event and subject (the fields device, pci, resource and source)
// it writes a burst in a minute, and counts the others. At the end of the minute, and when the core
// is closed, it writes a line log.suppressed for each subject, with the number of its suppressed
// lines.
//
// Every line is written or counted. Lines about a device are always written, and so are
// debug lines, except those of libraries.
//
// Zap's own sampler can't do this, because it decides by the message and before it knows the
// fields: a card that fails repeatedly would hide the failures of the other cards.
//
// The core owns a map of the subjects of this minute, which are parts of the node, and one timer,
// which runs only while the map has entries. Writing blocks as long as the other core does.
package throttle
