// Package notify is inotify as it can be used safely: fsnotify with its traps
// fenced off.
//
//   - fsnotify sends some errors while it holds the lock that Add, WatchList and
//     Close need. Here a goroutine of the [Instance] takes them, so whoever adds
//     watches may also be the one who looks at [Instance.Failed].
//   - fsnotify 1.10.1 keeps watches by path. Its Remove panics over one whose
//     path another directory has meanwhile, so there is no Remove here: close the
//     instance and open another.
//
// An [Instance] owns one inotify descriptor, its watches and two goroutines,
// fsnotify's and its own; [Instance.Close] waits for both. Events wait until
// they are received: when nobody does, the kernel's queue fills, and it says so
// by an error. No method blocks but for the lookup of the path.
package notify
