// Package timeline reads the daemon's log, which is described in docs/log-events.md, and prints it for people, as
// either a line for each event or a summary of each device.
//
// Lines may have a prefix, and there may be incomplete lines or lines from other programs in between. Control
// characters in the log never reach the terminal. A [Reader] stores the state of each device, but no lines except those
// from the last half second.
//
// A Reader interprets a line's event and fields; the message is only printed. A Reader belongs to one goroutine. It
// flushes its output before waiting for input.
package timeline
