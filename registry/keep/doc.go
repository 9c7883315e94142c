// Package keep makes sure that a node's store contains the bitstreams in a list of references. It pulls each reference
// and then checks it at intervals. Each reference has its own goroutine, so that a failing one doesn't delay the
// others.
//
//	k, err := keep.New(cfg)    // reads the list
//	err = k.Run(ctx)           // until ctx is done; follows the list
//	k.Once(ctx)                // or: one attempt for each reference
//
// # What it changes in the store
//
// Keep replaces and removes only files that it installed itself. It removes a file only if collecting is turned on, no
// card has the file's AFU, and no reference has named the file for some time. Files are replaced by renaming, so a
// program that has a file open, such as the hook, goes on reading the old content, even if the file is removed.
//
// # State
//
// The file .keep.json in the store records which file belongs to each reference, and which files keep installed. It is
// written before and after each installation. If it can't be parsed, nothing is changed, and each reference fails with
// an error that mentions .keep.json. The process holds the lock .keep.lock until it ends, so there is only one writer.
// A [Keeper] protects its state with a mutex, which it never holds while it waits for the network.
//
// # What may block
//
// Each attempt waits up to [Config.Timeout] for the network, and for as long as necessary for the file system.
package keep
