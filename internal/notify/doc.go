// Package notify wraps fsnotify and avoids two of its problems.
//
//   - fsnotify sends some errors while it holds the lock that Add, WatchList and Close need. Here a goroutine of the
//     [Instance] receives them, so one goroutine may both add watches and receive from [Instance.Failed].
//   - fsnotify 1.10.1 keeps watches by path. Its Remove panics if another directory has the path
//     by then. So there is no Remove here: close the instance and open another one.
//
// An [Instance] owns one inotify descriptor, its watches and two goroutines, one of fsnotify and one of its own;
// [Instance.Close] waits for both. Events wait until they are received. If the kernel's queue becomes full,
// [Instance.Failed] receives an error. No method blocks, except for the lookup of the path.
package notify
