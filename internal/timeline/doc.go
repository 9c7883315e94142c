// Package timeline reads the daemon's log, which is described in docs/log-events.md, and prints it for people: either a
// line for each event or a summary of each device.
//
// A line may have a prefix, and there may be other programs' lines and incomplete lines between the daemon's lines.
// Control characters in the log never reach the terminal. A [Reader] remembers each device's state, but only the lines
// from the last half second.
//
// A Reader interprets a line's event and fields, but just prints its message. A Reader belongs to one goroutine. It
// flushes its output before it waits for input.
package timeline
