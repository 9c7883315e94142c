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

// pattern says where the file NAME is, or several that stand for it: path is
// below a part's directory, and an element PREFIX* of it is every directory there
// whose name begins so. It is for names that end in a number of the driver's.
type pattern struct{ name, path string }

// listing is a directory that is listed when that is first needed, and once.
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

// find returns the paths below l that match path, in the order of their names.
// What stands before the first PREFIX* is not looked at where there is none:
// then the only path may lead to nothing. Paths that could be found are returned
// beside the error that hides others.
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

// notThere says whether err, of following a link, means that it leads nowhere.
func notThere(err error) bool {
	return sysfs.Gone(err) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.EINVAL)
}

// absentIfGone makes every way in which a card can vanish wrap fs.ErrNotExist.
func absentIfGone(err error) error {
	if sysfs.Gone(err) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
