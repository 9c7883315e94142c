// Package programming reads and stores bitstreams for FPGA cards, and locks a card while it is being programmed.
//
// # State
//
//   - The state is in the store's files, which belong to the effective user. A [Store] is just a path: each operation
//     opens and checks the directories and files anew.
//   - A [Bitstream] owns its open file until Close. A [Mapping] owns its pages, and remains valid after the Bitstream
//     is closed.
//   - A lock is a flock on a file in the lock directory. The kernel releases it when the process ends. Lock files are
//     never removed: if the file of a held lock were removed, a second process could acquire the lock too.
//
// The package has no background goroutines and no state in package variables.
//
// # Trust
//
// A bitstream is untrusted input. Whatever sizes its headers claim, reading it takes at most a few MiB of memory: the
// raw bitstream of a GBS is mapped, and the raw bitstream of an AOCX is unpacked into an unlinked file in the store.
// Only regular files are opened, because opening a port's device node would reset the port's AFU.
//
// # What may block
//
// Reading and copying block for as long as the file system does. [Bitstream.Check] and [Bitstream.Map] block while they
// unpack an AOCX (at most [MaxSize] bytes), or until their context is done. [AcquireLock] blocks until the lock is free
// or its context is done.
package programming
