package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Host is the node that is read.
type Host struct {
	Sys string // root of the sysfs tree, /sys
	Dev string // directory of the device nodes, /dev
	// Simulated is true if Sys is not a real sysfs. Then a regular file counts as a device node.
	Simulated bool
}

// CheckDir returns an error unless there is a directory at path. The error wraps fs.ErrNotExist
// if there is nothing.
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
