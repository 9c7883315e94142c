// Package programming reads bitstreams for FPGA cards, keeps them in a store, and locks a
// card while it is programmed.
//
// # Who owns what
//
//   - The files of the store are the state, and they belong to the effective user. A
//     [Store] is a path. It is opened anew for each operation, and what is opened is
//     checked: see [Store].
//   - A [Bitstream] owns its open file until Close. A [Mapping] owns pages of a file, and
//     outlives the Bitstream it came from.
//   - A [Lock] is a flock on a file in the lock directory. The kernel ends it with the
//     process. The files stay: removing one would let two holders in.
//
// Nothing here runs in the background, and nothing is kept in variables of the package.
//
// # Trust
//
// Bitstreams may come from anybody. Whatever a file claims, reading it costs at most some MiB
// of memory; a raw bitstream is mapped, and the one in an AOCX is unpacked into an unlinked
// file in the store, never into memory. A file that is no regular one is refused before it is
// opened: opening the node of a port would reset its AFU.
//
// # What may block
//
// Reading and copying block as long as the file system does. [Open] and [Store.Lookup]
// decompress an AOCX to its end, [MaxSize] at most. [AcquireLock] blocks until the lock is
// free or its context ends.
package programming
