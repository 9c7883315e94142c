// Package cordon keeps a node's cordons. A cordon takes a card or a port out of service. It records the administrator's
// name, the reason and, if it expires, when it ends.
//
//	book, err := cordon.Open("/var/lib/accelerator-device-plugin", log)
//	go book.Run(ctx)                                       // follows the file, ends expired cordons
//	all, err := book.Add(ctx, []string{"3b:00.0"}, "alice", "replace the fan", 2*time.Hour)
//
// # The file
//
// The cordons are in cordons.json in the state directory. During an upgrade, two daemons share the file. A write
// requires the lock on a lock file, and replaces the file by renaming a new one. If a write fails or the daemon is
// killed during it, the old file remains. If the file is removed, the cordons in force remain until the daemon exits.
// The directory and its files must belong to the daemon's user and must not be writable by anyone else (see package
// privatedir).
//
// # State
//
// A [Book] owns the cordons in force, and reads and writes the file. Its methods are safe for concurrent use; Run is
// called once. Add and Remove wait for the lock file and the disk, for up to 5 s. List and Changed don't block.
package cordon
