// Package dirwatch reports that files in certain directories may have changed. It doesn't read them: the receiver takes
// a report as a hint, and reads and compares the files itself.
//
// The directories may be missing, or may be replaced or moved: Run watches whichever directory is currently at the
// path. Some changes don't cause an event, because events may be lost, a file may be a link into another directory, and
// a directory's parent may be moved. So there is also a report at each interval.
//
// [Run] owns one inotify instance (package notify), and waits for its goroutines. It blocks while the receiver is
// running and while it looks up directories. If inotify can't be used, it logs that once.
package dirwatch
