package sysfs

import (
	"errors"
	"io/fs"
	"strings"
)

// Bound says whether a driver is bound to the device at dir: a driver entry
// exists (where it leads does not matter), or uevent names one, or, in trees
// that have neither, one of the driver's own attributes is there.
func Bound(dir string, own ...string) bool {
	if exists(dir + "/driver") {
		return true
	}
	uevent, err := Read(dir + "/uevent")
	if err == nil {
		return namesDriver(uevent)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false // it is there and cannot be read: nothing says that a driver is bound
	}
	for _, name := range own {
		if exists(dir + "/" + name) {
			return true
		}
	}
	return false
}

func namesDriver(uevent string) bool {
	for line := range strings.Lines(uevent) {
		if strings.HasPrefix(line, "DRIVER=") {
			return true
		}
	}
	return false
}

func exists(path string) bool {
	_, err := lstat(path)
	return err == nil
}
