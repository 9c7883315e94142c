// Package dirwatch reports that files in some directories may have changed. It does not read them: a reader takes the
// report as a hint, and reads and compares the files.
//
// The directories may be missing, replaced or moved: Run watches the directory that is at the path now. Some changes
// cause no event, because events may be lost, a file may be a link into another directory, and the parent of a
// directory may be moved. So there is also a report at each interval.
//
// [Run] owns one inotify instance (package notify), and waits for its goroutines. It blocks in the receiver and in the
// lookup of directories. If inotify cannot be used, it logs that once.
package dirwatch
