package sysfs

import (
	"errors"
	"io/fs"
	"strings"
)

// Bound reports whether a driver is bound to the device at dir: a driver entry
// exists (where it leads does not matter), or uevent names one, or, in trees
// that have neither, one of the driver's own attributes is there. The only errors
// are those of [OwnTrouble].
func Bound(dir string, own ...string) (bool, error) {
	if there, err := exists(dir + "/driver"); there || err != nil {
		return there, err
	}
	uevent, err := Read(dir + "/uevent")
	if err == nil {
		return namesDriver(uevent), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, ownOnly(err) // uevent exists but cannot be read: there is no sign of a driver
	}
	for _, name := range own {
		if there, err := exists(dir + "/" + name); there || err != nil {
			return there, err
		}
	}
	return false, nil
}

func namesDriver(uevent string) bool {
	for line := range strings.Lines(uevent) {
		if strings.HasPrefix(line, "DRIVER=") {
			return true
		}
	}
	return false
}

// exists reports whether there is a file at path. The only errors are those of
// [OwnTrouble].
func exists(path string) (bool, error) {
	_, err := lstat(path)
	return err == nil, ownOnly(err)
}

// ownOnly returns err if it is the daemon's own trouble, else nil. Callers use it where
// every other error is an answer.
func ownOnly(err error) error {
	if OwnTrouble(err) {
		return err
	}
	return nil
}
