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
// When a goroutine panics, the Go runtime stops all others, and lines that the writer has
// not written yet are lost: those of the last 0.1 ms or so where the reader is alive,
// because the writer runs as soon as a processor is free. Deferred functions run before
// that: a goroutine that defers [FlushOnPanic] loses no line by its panic. The daemon's
// long-lived goroutines do, and those that read what others have written: sysfs, uevents,
// calls of the kubelet. Errors that cannot be recovered (concurrent map writes, no memory)
// run no deferred function and lose those last lines; the runtime's own report goes
// straight to stderr.
package backlog
