// Package notify wraps fsnotify and works around two of its problems.
//
//   - fsnotify sends some errors while it holds the lock that Add, WatchList and Close need. Here a goroutine that
//     belongs to the [Instance] receives them, so the same goroutine can both add watches and receive from
//     [Instance.Failed].
//   - fsnotify 1.10.1 keeps watches by path. Its Remove panics if a different directory has that path by then. So there
//     is no Remove here: close the instance and open a new one.
//
// An [Instance] owns one inotify descriptor, its watches and two goroutines, one of fsnotify's and one of its own.
// [Instance.Close] waits for both. Events are queued until they are received. If the kernel's queue fills up,
// [Instance.Failed] receives an error. Methods don't block, except while looking up the path.
package notify
