// Package dirwatch reports that files in certain directories may have changed. It doesn't read the files; a report is
// only a hint, and it is up to the receiver to read and compare them.
//
// The directories may be missing, or may be replaced or moved; Run watches whichever directory is currently at the
// path. Some changes go unnoticed, because events may be lost, a file may be a link into another directory, or a
// directory's parent may be moved. So Run also reports at regular intervals.
//
// [Run] owns one inotify instance (package notify), and waits for its goroutines. Run blocks while the receiver is
// running and while it looks up directories. If inotify can't be used, Run logs that once.
package dirwatch
