// Package throttle limits repeated log lines. A [Core] passes lines on to the core that writes them, counting them by
// subject: the event, and the device, pci, resource and source fields. In each minute, it writes the first lines about
// a subject and only counts the rest. At the end of the minute, and when it is closed, it writes a log.suppressed line
// for each subject with suppressed lines, which says how many there were.
//
// Every line is either written or counted. Lines about devices are always written, and so are debug lines, except those
// from libraries.
//
// zap's own sampler isn't suitable, because it decides based on the message, before it knows the fields, so a card that
// fails repeatedly would hide other cards' failures.
//
// The core owns a map of the current minute's subjects, whose number is limited because their fields name parts of the
// node, and a timer, which only runs while the map has entries. Writing blocks for as long as the other core does.
package throttle
