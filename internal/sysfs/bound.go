package sysfs

import (
	"errors"
	"io/fs"
	"strings"
)

// Bound reports whether a driver is bound to the device at dir: either its driver link exists (the target doesn't
// matter), or its uevent file names a driver. If neither file exists, the device counts as bound if it has any of the
// attributes in own, which the driver creates. Bound only returns errors for which [IsShortage] reports true.
func Bound(dir string, own ...string) (bool, error) {
	if there, err := exists(dir + "/driver"); there || err != nil {
		return there, err
	}
	uevent, err := Read(dir + "/uevent")
	if err == nil {
		return namesDriver(uevent), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, onlyShortage(err) // uevent exists but can't be read, so there is no sign of a driver
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

// exists reports whether there is a file at path. It only returns errors for which [IsShortage] reports true.
func exists(path string) (bool, error) {
	_, err := lstat(path)
	return err == nil, onlyShortage(err)
}

// onlyShortage returns err if it is a shortage, and nil otherwise. It is for callers that treat any other error as a
// sign that the file doesn't exist or can't be used.
func onlyShortage(err error) error {
	if IsShortage(err) {
		return err
	}
	return nil
}
