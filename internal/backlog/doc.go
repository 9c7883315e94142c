// Package backlog writes the lines of a zap logger in the background, so that code
// that logs never waits for the reader of the log. A [Core] encodes a line in the
// goroutine that logs it and adds it to a bounded queue; one goroutine writes the
// lines in order, one by one. (zapcore.BufferedWriteSyncer is not suitable: when its
// buffer is full, the goroutine that logs writes it.)
//
// # Dropped lines
//
// A line that does not fit into the queue is dropped, and so is every line after it until the goroutine takes the lines
// of the queue. So the newest lines are dropped, not the oldest: the log shows how the problem began, and a line
// log.dropped marks the gap. You can read the current state without the log, from the kubelet, /devices and the
// metrics.
//
// A line that cannot be written, because of a full disk or a closed pipe, is also dropped. A line
// log.dropped is written before the next line that can be written.
//
// # Blocking
//
// Logging blocks only for the mutex, which is never held during a write. [Core.Sync] and
// [Core.Close] block until all lines are written, for [flushTimeout] at most.
//
// # A crash
//
// When a goroutine panics, the Go runtime stops all others, and lines that are not written yet are lost. These are the
// lines of about the last 0.1 ms if the reader does not stall, because the writer runs as soon as a processor is free.
// Deferred functions run before that, so a goroutine that defers [FlushOnPanic] loses no line in a panic. The daemon's
// long-lived goroutines defer it, and so do goroutines that parse external input: sysfs, uevents, calls of the kubelet.
// A fatal error of the runtime (concurrent map writes, no memory) runs no deferred function and loses these last lines,
// but the runtime writes its own report to stderr.
package backlog
