package simnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// directories makes directories whose inode numbers no deleted directory had, as
// in sysfs: by that number, inventory distinguishes a port from a later one of the same
// name. Most file systems give the number of a deleted directory to the next one.
//
// A directory is made in dir and then moved to its place. A directory that got the number
// of a deleted one stays in dir, so that the number is not given again.
type directories struct {
	dir     string
	deleted map[uint64]bool // inode numbers
}

// makeAll makes a directory and its parents, as far as they do not exist.
func (d *directories) makeAll(path string) error {
	_, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.makeAll(filepath.Dir(path)); err != nil {
		return err
	}
	for {
		made := filepath.Join(d.dir, "new")
		if err := os.Mkdir(made, 0o755); err != nil {
			return err
		}
		number, err := inode(made)
		if err != nil {
			return err
		}
		if !d.deleted[number] {
			return os.Rename(made, path)
		}
		if err := os.Rename(made, filepath.Join(d.dir, strconv.FormatUint(number, 10))); err != nil {
			return err
		}
	}
}

// removeAll deletes a file, or a directory and all that is in it.
func (d *directories) removeAll(path string) error {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		number, err := inode(path)
		d.deleted[number] = true
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(path)
}

func inode(path string) (uint64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: found no inode number", path)
	}
	return st.Ino, nil
}
