// Package backlog writes a zap logger's lines in the background, so that logging never waits for the log's reader. A
// [Core] encodes a line in the goroutine that logs it, and adds the line to a bounded queue. A single goroutine writes
// the queued lines one at a time, in order. (zapcore.BufferedWriteSyncer isn't suitable, because when its buffer is
// full, the goroutine that logs has to write it.)
//
// # Dropped lines
//
// A line that doesn't fit into the queue is dropped, and so are all lines after it until the goroutine empties the
// queue. So the log keeps the oldest lines, which show how the problem began, and marks the gap with a log.dropped
// line. The current state is available elsewhere: from the kubelet, /devices and the metrics.
//
// A line that can't be written, because the disk is full or the pipe is closed, is also dropped. As soon as writing
// works again, the first line is a log.dropped line.
//
// # Blocking
//
// Logging only blocks on a mutex, which is never held during a write. [Core.Sync] and [Core.Close] wait up to
// [flushTimeout] for all lines to be written.
//
// # A crash
//
// When a goroutine panics, the Go runtime stops the process, and lines that haven't been written yet are lost. Unless
// the reader has stalled, these are the lines from about the last 0.1 ms, because the writer runs as soon as a
// processor is free. Deferred functions still run, so no lines are lost if the goroutine defers [FlushOnPanic]. The
// daemon's long-lived goroutines do so, and so do goroutines that parse external input: sysfs, uevents, and calls from
// the kubelet. After a fatal runtime error (concurrent map writes, out of memory), deferred functions don't run and the
// last lines are lost, but the runtime writes its own report to stderr.
package backlog
