// Package privatedir opens directories and files that only the effective user can modify, and locks them against other
// processes. A program that runs as root keeps its state in such files so that no other user can redirect, replace or
// lock them. Processes that share a lock can attach numbers to it (see [Mark]).
//
// The package owns no state. A [Lock] belongs to its caller. All functions may block on the file system. [Within] calls
// a function in a new goroutine, so that the caller can stop waiting for it, and [Turns] does the same for a series of
// calls. [AcquireLock] blocks until the lock is free or its context is done.
package privatedir
