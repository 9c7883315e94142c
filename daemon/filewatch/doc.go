// Package filewatch reports that files of settings may have changed. It does not read them: the receiver
// reads and compares the files.
//
// It watches the directories of the files with inotify. So it also notices a file that is replaced,
// removed or created again, and the link `..data` that Kubernetes replaces in the directory of a
// ConfigMap. It reports a change after [Settle] without further events.
//
// It also reports at each [Interval], because some changes cause no event: events may be lost, a file may
// be a link into another directory, and the parent of a directory may be moved. While a directory is
// missing, or inotify cannot be used, it reports at each [BlindInterval]. It logs once that inotify cannot
// be used.
//
// [Run] owns one inotify instance (package notify), and awaits its goroutines. It blocks in the receiver
// and in the lookup of directories.
package filewatch
