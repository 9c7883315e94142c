package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Host says where to read a node's files.
type Host struct {
	Sys string // the sysfs root, /sys
	Dev string // the device node directory, /dev
	// Simulated is true if Sys isn't a real sysfs. In that case, a regular file counts as a device node.
	Simulated bool
}

// CheckDir returns an error unless there is a directory at path. If nothing is there, the error wraps fs.ErrNotExist.
func CheckDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%q: found nothing, want a directory: %w", path, fs.ErrNotExist)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%q: found a file of mode %s, want a directory", path, info.Mode())
	}
	return nil
}
