// Package timeline reads the daemon's log, as docs/log-events.md describes it, and prints it for people: a line
// for each event, or a summary of each device.
//
// A line may have a prefix, and lines of other programs and incomplete lines may be between the daemon's lines. No
// control character of the log reaches the terminal. A [Reader] remembers the state of each device, but no lines except
// those of the last half second.
//
// A Reader interprets the event and the fields of a line; its message is only printed. A Reader belongs to
// one goroutine. It flushes its output before it waits for its input.
package timeline
