// Package procusers finds the processes of the host that have a device, or a file of sysfs, open or mapped.
//
//	proc := procusers.Proc{Root: "/proc", Patience: 2 * time.Second}
//	if err := proc.SeesHost(); err != nil { … }
//	found, err := proc.Find(ctx, []sysfs.DeviceNumber{{Major: 245}})
//
// A device is identified by its number, because each container has its own nodes, whose names and inodes differ from
// those in the host's /dev. The number of an open file is in the inode behind /proc/TID/fd/N, and the number of a
// mapping is in the inode behind /proc/PID/map_files/RANGE. All threads are searched, because a thread may have its own
// table of open files. A file of sysfs is identified by its inode number and its size ([File]).
//
// # Safety
//
// The package runs as root and searches processes of other users. It opens none of their files, because closing a
// device may reset it, and opening a FIFO may block. It requests only attributes that the kernel has in memory
// (AT_STATX_DONT_SYNC), because a server of FUSE or NFS may belong to an attacker, or may not answer. It does not read
// the command line or the maps file of a process, because such a read can block while the process holds the lock of its
// memory. If the search of a process takes longer than Patience, it is abandoned and reported as an error. If a process
// ends during the search, that is not an error.
//
// # Limits
//
// The result is not atomic: a file that is passed between processes during the search may be missed. Processes that
// start during the search are searched as well, until there are no new ones. The search does not find files that are in
// no process's table of open files: files in transit through a Unix socket, files registered with io_uring, and VFIO
// devices whose group has been closed.
//
// # State
//
// The package owns no state. Find blocks until all processes have been searched, or ctx ends. The
// goroutine for an abandoned process ends when its system call returns.
package procusers
