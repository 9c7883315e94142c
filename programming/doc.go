// Package programming reads bitstreams for FPGA cards, keeps them in a store, and locks a
// card while it is programmed.
//
// # Who owns what
//
//   - The files of the store are the state, and they belong to the effective user. A
//     [Store] is a path: each operation opens and checks the directories and files anew.
//   - A [Bitstream] owns its open file until Close. A [Mapping] owns pages of a file, and
//     outlives the Bitstream it came from.
//   - A lock is a flock on a file in the lock directory. The kernel ends it with the
//     process. The files stay: while one is held, another process that removes it lets a
//     second holder in.
//
// Nothing here runs in the background, and nothing is kept in variables of the package.
//
// # Trust
//
// A bitstream is untrusted input. Reading one costs a few MiB of memory at most, whatever
// sizes it claims. The raw bitstream of a GBS is mapped; that of an AOCX is unpacked into an
// unlinked file in the store, never into memory. Only regular files are opened: opening the
// device node of a port would reset its AFU.
//
// # What may block
//
// Reading and copying block as long as the file system does. [Bitstream.Check] and
// [Bitstream.Map] unpack an AOCX to its end, [MaxSize] at most, or until their context ends.
// [AcquireLock] blocks until the lock is free or its context ends.
package programming
