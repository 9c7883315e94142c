// Package notify wraps fsnotify and works around two of its problems.
//
//   - fsnotify sends some errors while holding the lock that Add, WatchList and Close need. So each [Instance] has a
//     goroutine that receives them, which allows a caller to add watches and receive from [Instance.Failed] in a single
//     goroutine.
//   - fsnotify 1.10.1 looks up watches by path, and its Remove panics if the path now belongs to a different directory.
//     So this package doesn't offer Remove; close the instance and open a new one instead.
//
// An [Instance] owns an inotify file descriptor, its watches, and two goroutines, one of which is fsnotify's.
// [Instance.Close] waits for both. Events are queued until they are received. If the kernel's queue overflows, an error
// is sent on [Instance.Failed]. Methods don't block, except to look up a path.
package notify
