// Package timeline reads the daemon's log, as docs/logs.md describes it, and prints it
// for people: a line for each event, or a summary.
//
// The log may have been changed by tools: lines may have prefixes, be cut into pieces or be strings
// inside other JSON objects, and there may be lines of other programs and incomplete lines. For any
// input, a [Reader] uses a bounded amount of memory and prints no control characters of the log.
//
// A Reader interprets the event and the fields of a line, never its message. Package event has the
// text for each event.
//
// A Reader belongs to one goroutine. It flushes its output before each read of its input, which may
// block.
package timeline
