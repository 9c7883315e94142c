package simnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// directories creates directories whose inode numbers have never belonged to a deleted directory, as in sysfs. Package
// inventory uses these numbers to tell a port from a later port with the same name. Most file systems, though not
// tmpfs, reuse a deleted directory's number for the next directory.
//
// A directory is created in dir and then moved into place. If it gets the number of a deleted directory, it stays in
// dir to keep the number occupied, and another directory is created.
type directories struct {
	dir     string
	deleted []uint64 // inode numbers, oldest first
	keep    int      // maximum length of deleted
}

// maxDeleted is how many deleted directories' inode numbers are kept: enough for about two hundred cards. Older numbers
// may be reused, because inventory has forgotten the ports that had them.
const maxDeleted = 4096

// makeAll creates a directory, along with any missing parents.
func (d *directories) makeAll(path string) error {
	_, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.makeAll(filepath.Dir(path)); err != nil {
		return err
	}
	made := filepath.Join(d.dir, "new")
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) { // left behind by a killed process
		return err
	}
	for {
		if err := os.Mkdir(made, 0o755); err != nil {
			return err
		}
		number, err := inode(made)
		if err != nil {
			return err
		}
		if !slices.Contains(d.deleted, number) {
			return os.Rename(made, path)
		}
		if err := os.Rename(made, d.occupant(number)); err != nil {
			return err
		}
	}
}

// occupant returns the path of the directory that keeps an inode number occupied.
func (d *directories) occupant(number uint64) string {
	return filepath.Join(d.dir, strconv.FormatUint(number, 10))
}

// removeAll deletes a file or a directory with its contents.
func (d *directories) removeAll(path string) error {
	if err := d.retire(path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// retire records the inode numbers of a directory and of all directories in it, so that they aren't reused once the
// directories have been deleted.
func (d *directories) retire(path string) error {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		number, err := inode(path)
		if err == nil && !slices.Contains(d.deleted, number) {
			d.deleted = append(d.deleted, number)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for len(d.deleted) > d.keep {
		if err := os.Remove(d.occupant(d.deleted[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.deleted = d.deleted[1:]
	}
	return nil
}

// inode returns a file's inode number.
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
