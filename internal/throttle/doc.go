// Package throttle limits repeated log lines. A [Core] passes lines on to the core that writes them. Lines with the
// same event and subject (the fields device, pci, resource and source) count together. In each minute, the core writes
// the first lines of each subject and only counts the others. At the end of the minute, and when the core is closed, it
// writes a line log.suppressed for each subject, with the number of its suppressed lines.
//
// Every line is either written or counted. Lines about a device are always written. So are debug lines, except those of
// libraries.
//
// Zap's own sampler cannot do this, because it decides by the message, before it knows the fields: a card that fails
// repeatedly would hide the failures of the other cards.
//
// The core owns a map of the subjects of this minute, which are parts of the node, and one timer, which runs only while
// the map has entries. Writing blocks for as long as the other core does.
package throttle
