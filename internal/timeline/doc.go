// Package timeline reads the daemon's log, as docs/logs.md describes it, and prints it
// for people: a line for each event, or a summary.
//
// The log may come as it was written, or as tools pass it on: behind prefixes, in pieces,
// inside other JSON, mixed with foreign and torn lines. For any input, a [Reader] needs a
// bounded amount of memory and prints no control character of the log.
//
// A line is judged by its event and its fields, never by its message. Package event has
// the words for each event.
//
// A Reader belongs to one goroutine. It flushes its output before each Read, which may
// block.
package timeline
