// Package cordon keeps track of a node's cordons. A cordon takes a card or a port out of service. It records the
// administrator's name, the reason and, if it is temporary, when it ends.
//
//	book, err := cordon.Open("/var/lib/accelerator-device-plugin", log)
//	go book.Run(ctx)                                       // follows the file, ends expired cordons
//	all, err := book.Add(ctx, []string{"3b:00.0"}, "alice", "replace the fan", 2*time.Hour)
//
// # The file
//
// The cordons are stored in cordons.json in the state directory. During an upgrade, two daemons share the file. To
// write it, a daemon locks a lock file, writes a new file and renames it. If the write fails or the daemon is killed in
// the meantime, the old file is still there. If the file is removed, the cordons stay in force until the daemon exits.
// The directory and its files must belong to the daemon's user and must not be writable by anyone else (see package
// privatedir).
//
// # State
//
// A [Book] owns the cordons in force, and reads and writes the file. Its methods are safe for concurrent use, except
// that Run must be called only once. Add and Remove wait up to 5 s for the lock file and the disk. List and Changed
// don't block.
package cordon
