// Package programming reads bitstreams for FPGA cards, keeps them in a store, and locks a card while it is being
// programmed.
//
// # State
//
//   - The state is in the store's files, which belong to the effective user. A [Store] is only a path: each operation
//     opens and checks the directories and files again.
//   - A [Bitstream] owns its open file until Close. A [Mapping] owns pages of a file, and may be used after its
//     Bitstream is closed.
//   - A lock is a flock on a file in the lock directory. The kernel releases it when the process ends. The files are
//     never removed: if a held lock's file were removed, a second process could get the lock as well.
//
// The package doesn't run anything in the background or keep anything in package variables.
//
// # Trust
//
// A bitstream is untrusted input. Reading it takes at most a few MiB of memory, whatever sizes its headers contain. A
// GBS's raw bitstream is mapped. An AOCX's raw bitstream is unpacked into an unlinked file in the store, never into
// memory. Only regular files are opened, because opening a port's device node would reset its AFU.
//
// # What may block
//
// Reading and copying block for as long as the file system does. [Bitstream.Check] and [Bitstream.Map] block until they
// have unpacked an AOCX, which is at most [MaxSize] bytes, or their context is done. [AcquireLock] blocks until the
// lock is free or its context is done.
package programming
