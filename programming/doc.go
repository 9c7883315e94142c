// Package programming reads bitstreams for FPGA cards, keeps them in a store, and locks a
// card while it is programmed.
//
// # State
//
//   - The state is in the files of the store, which belong to the effective user. A [Store] is
//     only a path: each operation opens and checks the directories and files again.
//   - A [Bitstream] owns its open file until Close. A [Mapping] owns pages of a file, and may
//     be used after its Bitstream is closed.
//   - A lock is a flock on a file in the lock directory. The kernel releases it when the process
//     ends. The files are never removed: if the file of a held lock were removed, a second process
//     could get the lock, too.
//
// The package runs nothing in the background, and keeps nothing in package variables.
//
// # Trust
//
// A bitstream is untrusted input. Reading it needs a few MiB of memory at most, whatever sizes its headers contain. The
// raw bitstream of a GBS is mapped. The raw bitstream of an AOCX is unpacked into an unlinked file in the store, never
// into memory. Only regular files are opened, because opening the device node of a port would reset its AFU.
//
// # What may block
//
// Reading and copying block as long as the file system does. [Bitstream.Check] and
// [Bitstream.Map] block until they have unpacked an AOCX, at most [MaxSize] bytes, or their context
// ends. [AcquireLock] blocks until the lock is free or its context ends.
package programming
