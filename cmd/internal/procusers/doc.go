// Package procusers finds processes on the host that have a device or a sysfs file open or mapped.
//
//	proc := procusers.Proc{Root: "/proc", Patience: 2 * time.Second}
//	if err := proc.CheckAccess(); err != nil { … }
//	found, err := proc.Find(ctx, []sysfs.DeviceNumber{{Major: 245}})
//
// A device is identified by its device number, because each container has its own device nodes, whose names and inodes
// differ from those in the host's /dev. The number of an open device is in the inode behind /proc/TID/fd/N, and the
// number of a mapped device is in the inode behind /proc/PID/map_files/RANGE. All threads are searched, because a
// thread may have its own table of open files. A sysfs file is identified by its inode number and size ([File]).
//
// # Safety
//
// The package runs as root and searches other users' processes. It doesn't open any of their files, because closing a
// device may reset it and opening a FIFO may block. It only requests attributes that the kernel has in memory
// (AT_STATX_DONT_SYNC), because a FUSE or NFS server may belong to an attacker or may not answer. It doesn't read a
// process's command line or maps file, because such a read can block while the process holds its memory lock. If
// searching a process takes longer than Patience, the search is abandoned and reported as an error. A process that ends
// during the search isn't an error.
//
// # Limits
//
// The search is not atomic: a file that is passed between processes during the search may be missed. Processes that
// start during the search are also searched, until there are no new processes. The search doesn't find files that
// aren't in any process's table of open files: files in transit through a Unix socket, files registered with io_uring,
// and VFIO devices whose group has been closed.
//
// # State
//
// The package owns no state. Find blocks until all processes have been searched or ctx is done. The goroutine of an
// abandoned search ends when its system call returns.
package procusers
