// Package cordon keeps the cordons of a node: the cards and ports that an administrator has taken
// out of service, by whom, why, and until when.
//
//	book, err := cordon.Open("/var/lib/accelerator-device-plugin", log)
//	go book.Run(ctx)                                       // follows the file, ends cordons
//	all, err := book.Add(ctx, []string{"3b:00.0"}, "alice", "replace the fan", 2*time.Hour)
//
// # The file
//
// cordons.json in the state directory has them. In an upgrade two daemons share it: each write
// happens under a lock file, and replaces the file by a rename. If a write fails, or the daemon
// is killed in it, the old file stays. If the file is removed, the cordons in force stay until the
// daemon ends. Directory and files must belong to the daemon's user and be writable by no other, see
// package trust.
//
// # Who owns what, what may block
//
// Add, Remove and Run may be called by any goroutine, Run once. Add and Remove block for the lock
// file and the disk. List and Changed do not block.
package cordon
