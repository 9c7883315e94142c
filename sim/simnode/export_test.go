package simnode

import (
	"path/filepath"
	"strconv"
)

// Directories creates and removes directories below dir.
type Directories struct{ d *directories }

// NewDirectories returns Directories that keep this number of deleted directories.
func NewDirectories(dir string, keep int) Directories {
	return Directories{&directories{dir: dir, keep: keep}}
}

// MakeAndRemove creates n directories, and removes them.
func (d Directories) MakeAndRemove(n int) error {
	top := filepath.Join(d.d.dir, "top")
	for i := range n {
		if err := d.d.makeAll(filepath.Join(top, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return d.d.removeAll(top)
}
