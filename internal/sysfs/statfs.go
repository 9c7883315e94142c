package sysfs

import (
	"io/fs"
	"syscall"
)

// sysfsMagic is SYSFS_MAGIC from include/uapi/linux/magic.h.
const sysfsMagic = 0x62656572

// IsSysfs reports whether path is on a real sysfs. If it isn't, the host is simulated.
func IsSysfs(path string) (bool, error) {
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(path, &st)
		if err == nil {
			return int64(st.Type) == sysfsMagic, nil
		}
		if err != syscall.EINTR {
			return false, &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
	}
}
