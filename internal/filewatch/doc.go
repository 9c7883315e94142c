// Package filewatch reports that files may have changed. It does not read them: the receiver
// reads the files and compares them. It is for the files of settings.
//
// It watches the directories of the files with inotify, so that it sees a file that is replaced,
// removed or made again, and the link `..data` that Kubernetes swaps in the directory of a
// ConfigMap. It reports events after [Settle] without further ones.
//
// It also reports each [Interval], for changes without an event: lost events, a file behind a link
// into another directory, a directory whose parent was moved. While a directory is missing, or
// inotify is refused, it reports each [BlindInterval]. A refusal is logged once.
//
// [Run] owns one inotify instance (package notify), and awaits its goroutines. It blocks in the
// receiver and in the lookup of directories.
package filewatch
