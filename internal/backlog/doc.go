// Package backlog writes the lines of a zap logger in the background, so that code
// that logs never waits for the reader of the log. A [Core] encodes a line in the
// goroutine that logs it and adds it to a bounded buffer; one goroutine writes the
// buffer, line by line and in order. (zapcore.BufferedWriteSyncer does not suffice: a
// full buffer is written by the goroutine that logs.)
//
// # What is dropped
//
// A line that does not fit into the buffer is dropped, and so is every line after it
// until the writer takes the buffer over. So the newest lines are dropped, not the
// oldest: the lines that are kept are those that tell how the trouble began, the gap is
// at one place, and a line log.dropped stands there. How things are now is known
// without the log: the kubelet, /devices and the metrics have it.
//
// A line that cannot be written, to a full disk or a closed pipe, is dropped too. The
// next line that can be written comes after a line log.dropped.
//
// # What may block
//
// Logging blocks only for the mutex, which is never held during a write. [Core.Sync] and
// [Core.Close] block until all lines are written, for [flushTimeout] at most.
//
// # A crash
//
// The Go runtime ends a process that panics without running other goroutines. Lines
// that the writer has not taken by then are lost: those of the last microseconds where
// the reader is alive, because the writer runs as soon as a processor is free. A
// goroutine that calls Sync in a deferred function loses none by a panic of its own.
package backlog
