// Package timeline reads the daemon's log, which is described in docs/log-events.md, and prints it for people: either a
// line for each event or a summary of each device.
//
// Lines may have a prefix, and incomplete lines or lines from other programs may appear between the daemon's lines.
// Control characters in the log never reach the terminal. A [Reader] keeps each device's state, but only the lines of
// the last half second.
//
// A Reader interprets a line's event and fields. It doesn't interpret the message, but only prints it. A Reader belongs
// to one goroutine. It flushes its output before it waits for input.
package timeline
