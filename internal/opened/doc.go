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
// # Safety
//
// The package runs as root and reads processes of other users. It opens none of their files: a
// device that is opened may be reset when it is closed, and a FIFO may block. It asks file systems
// only for attributes that the kernel has in memory (AT_STATX_DONT_SYNC), because a server of FUSE or
// NFS may belong to an attacker, or may not answer. It does not read a process's command line or
// mappings as text, because that can block while the process holds the lock of its memory. A process
// whose files take longer than Patience is given up and reported as an error. A process that ends
// during the search is no error.
//
// # Limits
//
// The result is no snapshot: a file that is passed between processes during the search may be missed.
// Processes that start during the search are read, too, until there are no new ones. Files that no
// process has in its table are not found: those in transit through a Unix socket, those registered
// with io_uring, and VFIO devices whose group has been closed.
//
// # Who owns what
//
// The package owns no state. Find blocks until all processes have been read, or ctx ends. The
// goroutine for a process that was given up ends when its system call returns.
package opened
