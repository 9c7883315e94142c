// Package opened finds the processes of the host that have a device open or mapped.
//
//	proc := opened.Proc{Root: "/proc", Patience: 2 * time.Second}
//	if err := proc.SeesHost(); err != nil { … }
//	found, err := proc.Find(ctx, []sysfs.DeviceNumber{{Major: 245}})
//
// A device is found by its number, because each container has nodes of its own: their names and
// inodes differ from those in the host's /dev. The number of an open file is that of the inode
// behind /proc/TID/fd/N, and of a mapping that of /proc/PID/map_files/RANGE. Each thread is looked
// at, because threads may have tables of open files of their own.
//
// # What it may meet
//
// It runs as root and looks at processes of others. It opens no file of theirs: a device that is
// opened may be reset when it is closed, and a FIFO may block. It asks each file system only for
// what the kernel has in memory (AT_STATX_DONT_SYNC), because a server of FUSE or NFS may be a
// process of an attacker, or may not answer. It does not read a process's command line or mappings
// as text, which can block while the process holds the lock of its memory. A process whose files
// take longer than Patience is given up and reported as an error. A process that ends meanwhile is
// no error.
//
// # What it cannot find
//
// It is no snapshot: a file that is passed from process to process at that moment may be missed. Processes
// that start meanwhile are looked at, too, until there are no new ones.
// It does not find files that no process has in its table: those on the way through a Unix socket,
// those that io_uring has registered, and VFIO devices whose group has been closed.
//
// # Who owns what
//
// It owns no state. Find blocks until all processes have been looked at, or ctx ends. The goroutine
// that looks at a process that was given up ends when the kernel lets it.
package opened
