package port

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// pattern says where a health file is. name is the file's name in readings, and path is relative to the directory of
// the part that the file belongs to. A PREFIX* element in path matches every directory whose name begins with PREFIX,
// because the driver appends numbers to these names. Several files may match.
type pattern struct{ name, path string }

// listing is a directory that is only listed once, when its entries are first needed.
type listing struct {
	dir      string
	listed   bool
	children []fs.DirEntry
	err      error
}

func (l *listing) list() ([]fs.DirEntry, error) {
	if !l.listed {
		l.children, l.err = os.ReadDir(l.dir)
		l.listed = true
	}
	return l.children, l.err
}

// find returns the paths below l that match path, sorted by name. A path without a PREFIX* element is returned even if
// it doesn't exist. If a directory can't be listed, find returns the other paths and the error.
func (l *listing) find(path string) ([]string, error) {
	star := strings.IndexByte(path, '*')
	if star < 0 {
		return []string{l.dir + "/" + path}, nil
	}
	holder, prefix := l, path[:star]
	if slash := strings.LastIndexByte(prefix, '/'); slash >= 0 {
		holder, prefix = &listing{dir: l.dir + "/" + prefix[:slash]}, prefix[slash+1:]
	}
	children, err := holder.list()
	if holder != l && sysfs.Gone(err) {
		return nil, nil
	}
	rest := strings.TrimPrefix(path[star+1:], "/")
	var paths []string
	for _, c := range children {
		if !c.IsDir() || !strings.HasPrefix(c.Name(), prefix) {
			continue
		}
		below := listing{dir: holder.dir + "/" + c.Name()}
		if rest == "" {
			paths = append(paths, below.dir)
			continue
		}
		more, merr := below.find(rest)
		paths, err = append(paths, more...), errors.Join(err, merr)
	}
	return paths, err
}

// isDangling reports whether err, from following a link, means that the target doesn't exist.
func isDangling(err error) bool {
	return sysfs.Gone(err) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.EINVAL)
}

// absentIfGone returns err. If err means that the card is gone, the returned error also wraps fs.ErrNotExist.
func absentIfGone(err error) error {
	if sysfs.Gone(err) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
