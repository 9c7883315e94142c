// Package privatedir opens directories and files that only the effective user can change, and locks them
// against other processes. A program that runs as root keeps its state in such files, so that no other
// user can redirect, replace or lock them. Processes that share a lock can attach numbers to it ([Mark]).
//
// The package owns no state. A [Lock] belongs to its caller. All functions may block for the file system. [Within]
// calls a function in a goroutine of its own, so that the caller can give up waiting, and [Turns] does so for many
// calls. [AcquireLock] blocks until the lock is free, or its context ends.
package privatedir
