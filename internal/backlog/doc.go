// Package backlog writes a zap logger's lines in the background, so that logging never waits for the log's reader. A
// [Core] encodes a line in the goroutine that logs it and adds the line to a bounded queue. A single goroutine writes
// the lines in order, one at a time. (zapcore.BufferedWriteSyncer isn't suitable: when its buffer is full, it is
// written by the goroutine that logs.)
//
// # Dropped lines
//
// A line that doesn't fit into the queue is dropped, and so is every line after it until the goroutine empties the
// queue. So it is the newest lines that are dropped, not the oldest: the log shows how the problem began, and a
// log.dropped line marks the gap. The current state is available without the log, from the kubelet, /devices and the
// metrics.
//
// A line that can't be written, because the disk is full or the pipe is closed, is also dropped. A log.dropped line is
// written before the next line that can be written.
//
// # Blocking
//
// Logging blocks only for the mutex, which is never held during a write. [Core.Sync] and [Core.Close] block until all
// lines have been written, but for no longer than [flushTimeout].
//
// # A crash
//
// When a goroutine panics, the Go runtime stops all others, and lines that haven't been written yet are lost. If the
// reader isn't stalled, these are the lines from about the last 0.1 ms, because the writer runs as soon as a processor
// is free. Deferred functions run before that, so a goroutine that defers [FlushOnPanic] doesn't lose any lines when it
// panics. The daemon's long-lived goroutines defer it, and so do goroutines that parse external input: sysfs, uevents,
// and calls from the kubelet. A fatal runtime error (concurrent map writes, out of memory) doesn't run deferred
// functions and loses these last lines, but the runtime writes its own report to stderr.
package backlog
