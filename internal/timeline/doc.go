// Package timeline reads the daemon's log, as docs/logs.md describes it, and tells
// it to people: a line an event, or a summary.
//
// The log may come as it was written, or as tools hand it on: behind prefixes, in
// pieces, inside of other JSON, mixed with lines of others and torn ones. Whatever
// comes, a [Reader] needs a constant amount of memory, and nothing in it reaches a
// terminal as a control character.
//
// A Reader belongs to one goroutine. It reads and writes what it is given, and
// flushes what it has written before each Read, which may block.
package timeline
