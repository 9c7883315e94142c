// Package cordon keeps the cordons of a node. A cordon takes a card or a port out of service, and has
// the name of the administrator, the reason and, if it ends by itself, the time of its end.
//
//	book, err := cordon.Open("/var/lib/accelerator-device-plugin", log)
//	go book.Run(ctx)                                       // follows the file, ends cordons
//	all, err := book.Add(ctx, []string{"3b:00.0"}, "alice", "replace the fan", 2*time.Hour)
//
// # The file
//
// The cordons are in cordons.json in the state directory. In an upgrade two daemons share the file:
// each write happens under a lock file, and replaces the file by a rename. If a write fails, or the
// daemon is killed during it, the old file stays. If the file is removed, the cordons in force stay
// until the daemon ends. The directory and its files must belong to the daemon's user and be writable
// by no other: see package trust.
//
// # Who owns what
//
// A [Book] owns the cordons in force, and reads and writes the file. Its methods are safe for
// concurrent use; Run is called once. Add and Remove block for the lock file and the disk. List and
// Changed do not block.
package cordon
