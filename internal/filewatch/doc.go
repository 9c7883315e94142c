// Package filewatch reports that files may have changed. It reads none of them: the receiver
// reads a file and compares it.
//
// It watches the directories of the files with inotify, so that it sees a file that is replaced,
// removed or made again, and the link `..data` that Kubernetes swaps in the directory of a
// ConfigMap. It reports events after [Settle] without further ones. A report each [Interval]
// makes up for what inotify does not show: events that were lost, a file behind a link into
// another directory, a directory whose parent was moved. While a directory is missing, or
// inotify is refused, that is each [BlindInterval]; a refusal is logged once.
//
// [Run] owns one inotify instance, and awaits its goroutines. It blocks in the receiver and in
// the lookup of directories.
package filewatch
