// Package keep keeps a list of references in the store of a node. Each reference is pulled, and then checked at intervals,
// in a goroutine of its own, so one that fails delays no other.
//
//	k, err := keep.New(cfg)    // reads the list
//	err = k.Run(ctx)           // until ctx ends; follows the list
//	k.Once(ctx)                // or: one attempt for each reference
//
// # What it changes in the store
//
// A file is replaced only if keep has installed it, and removed only if, beside that, collecting is turned on, no reference
// has named it for a time, and no card has its AFU. Replacing is a rename, and a program that has the file open, such as
// the hook, goes on with the old content, also after a removal. Files that others have installed are never touched.
//
// # State
//
// The file .keep.json of the store records which file each reference has, and which files were installed by keep. It is
// written before a file is installed, and after. It is read strictly: if it cannot be understood, each reference fails
// with an error that names it, and nothing is changed. The lock .keep.lock is held until the process ends, so the file has
// one writer. A [Keeper] has one mutex for its state, which is never held while it waits for the network.
//
// # What may block
//
// Each attempt blocks for the network for at most [Config.Timeout], and for the file system.
package keep
