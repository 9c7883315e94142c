// Package notify wraps fsnotify so that two of its traps are out of reach.
//
//   - fsnotify sends some errors while it holds the lock that Add, WatchList and Close need.
//     Here a goroutine of the [Instance] receives them, so one goroutine may add watches and
//     receive from [Instance.Failed].
//   - fsnotify 1.10.1 keeps watches by path. Its Remove panics if another directory has the
//     path meanwhile, so there is no Remove here: close the instance and open another.
//
// An [Instance] owns one inotify descriptor, its watches and two goroutines, that of fsnotify
// and its own; [Instance.Close] waits for both. Events wait until they are received. If they
// are not, the kernel's queue becomes full, which is reported as an error. No method blocks,
// except for the lookup of the path.
package notify
