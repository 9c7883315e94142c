// Package keep keeps the bitstreams from a list of references in a node's store. Each reference is pulled, and then
// checked at intervals. Each one has its own goroutine, so a failing reference doesn't delay the others.
//
//	k, err := keep.New(cfg)    // reads the list
//	err = k.Run(ctx)           // until ctx ends; follows the list
//	k.Once(ctx)                // or: one attempt for each reference
//
// # What it changes in the store
//
// A file is replaced or removed only if keep has installed it. It is removed only if collecting is turned on, no card
// has its AFU, and no reference has named it for some time. A file is replaced by a rename. So a program that has the
// file open, such as the hook, continues with the old content, even if the file is removed. Files that were installed
// by anyone else are never touched.
//
// # State
//
// The file .keep.json in the store records which file belongs to each reference, and which files keep has installed. It
// is written before and after a file is installed. It is read strictly: if it cannot be understood, nothing is changed,
// and each reference fails with an error that names the file. The process holds the lock .keep.lock until it ends, so
// the file has only one writer. A [Keeper] protects its state with one mutex, which is never held while it waits for
// the network.
//
// # What may block
//
// Each attempt waits for the network, for up to [Config.Timeout], and for the file system.
package keep
