// Package procusers finds processes on the host that have a device or a sysfs file open or mapped.
//
//	proc := procusers.Proc{Root: "/proc", Patience: 2 * time.Second}
//	if err := proc.CheckAccess(); err != nil { … }
//	found, err := proc.Find(ctx, []sysfs.DeviceNumber{{Major: 245}})
//
// A device is identified by its device number, because each container has its own device nodes, whose names and inodes
// differ from those in the host's /dev. /proc/TID/fd/N leads to an open device's inode, and /proc/PID/map_files/RANGE
// to a mapped device's inode; both inodes contain the device number. All threads are searched, because a thread may
// have its own table of open files. A sysfs file is identified by its inode number and size ([File]).
//
// # Safety
//
// The package runs as root and searches other users' processes. It doesn't open any of their files, because closing a
// device may reset it and opening a FIFO may block. It only requests attributes that the kernel already has in memory
// (AT_STATX_DONT_SYNC), because a FUSE or NFS server may not answer, or may belong to an attacker. It doesn't read a
// process's command line or maps file, because that can block while the process holds its memory lock. A search of a
// process that takes longer than Patience is abandoned and reported as an error. It isn't an error if a process ends
// while it is being searched.
//
// # Limits
//
// The search isn't atomic: it may miss a file that is passed between processes while it is running. Processes that
// start during the search are also searched, until no new ones appear. The search doesn't find files that aren't in any
// process's table of open files: files in transit through a Unix socket, files registered with io_uring, and VFIO
// devices whose group has been closed.
//
// # State
//
// The package owns no state. Find blocks until all processes have been searched or ctx is done. An abandoned search's
// goroutine ends when its system call returns.
package procusers
