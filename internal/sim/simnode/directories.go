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

// directories makes directories whose inode numbers no recently deleted directory had, as
// in sysfs: by that number, inventory distinguishes a port from a later one of the same
// name. Most file systems give the number of a deleted directory to the next one.
//
// A directory is made in dir and then moved to its place. A directory that got the number
// of a deleted one stays in dir, so that the number is not given again.
type directories struct {
	dir     string
	max     int             // bounds the numbers that do not come back: a demo may run for weeks
	deleted map[uint64]bool // the inode numbers of the directories that were deleted last
	order   []uint64        // the same in the order in which they were deleted
}

func newDirectories(dir string) *directories {
	return &directories{dir: dir, max: 1 << 14, deleted: make(map[uint64]bool)}
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
		if err := os.Rename(made, d.occupant(number)); err != nil {
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
		if err != nil {
			return err
		}
		return d.keep(number)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(path)
}

// keep records the number of a directory that is about to be deleted, so that no later
// directory gets it. It releases the oldest number if there are too many.
func (d *directories) keep(number uint64) error {
	d.deleted[number], d.order = true, append(d.order, number)
	if len(d.order) <= d.max {
		return nil
	}
	free := d.order[0]
	d.order = d.order[1:]
	delete(d.deleted, free)
	if err := os.Remove(d.occupant(free)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// occupant returns the path of the directory that occupies a number.
func (d *directories) occupant(number uint64) string {
	return filepath.Join(d.dir, strconv.FormatUint(number, 10))
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
