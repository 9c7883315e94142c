// Package cordon keeps the cordons of a node. A cordon takes a card or a port out of service. It records the name of
// the administrator, the reason and, if it expires, the time of its end.
//
//	book, err := cordon.Open("/var/lib/accelerator-device-plugin", log)
//	go book.Run(ctx)                                       // follows the file, ends expired cordons
//	all, err := book.Add(ctx, []string{"3b:00.0"}, "alice", "replace the fan", 2*time.Hour)
//
// # The file
//
// The cordons are in cordons.json in the state directory. During an upgrade two daemons share the file.
// A write needs the lock on a lock file, and replaces the file with a rename. If a write fails or the
// daemon is killed during it, the old file remains. If the file is removed, the cordons in force remain
// until the daemon ends. The directory and its files must belong to the daemon's user, and no other user
// may be able to write to them: see package privatedir.
//
// # State
//
// A [Book] owns the cordons in force, and reads and writes the file. Its methods are safe for
// concurrent use; Run is called once. Add and Remove block for the lock file and the disk, for 5 s at most. List and
// Changed do not block.
package cordon
