package privatedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// OpenDir opens the directory at path, making sure that only the effective user can modify it, and that nobody but that
// user and root can redirect the path. To do so, it descends from the root directory and checks each directory after
// opening it: the owner must be that user or root, and others must not be able to write to it unless it has the sticky
// bit. OpenDir follows links if they also belong to that user or root (on systems that use ostree, /srv is a link). If
// create is true, it creates missing directories.
//
// ACLs don't need a separate check, because the group bits of a file's mode are the mask of its ACL.
func OpenDir(path string, create bool) (*os.Root, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	top, err := os.OpenRoot("/")
	if err != nil {
		return nil, err
	}
	d := descent{top}
	defer func() { d.close(0) }()
	info, err := top.Stat(".")
	if err == nil {
		err = checkParent("/", info)
	}
	if err != nil {
		return nil, err
	}
	rest := elements(path)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." { // in a link's target
			d.close(max(1, len(d)-1))
			continue
		}
		info, err := d.lookUp(name, create)
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			dir, err := enter(d.here(), name, info, checkParent)
			if err != nil {
				return nil, err
			}
			d = append(d, dir)
			continue
		}
		if links++; links > 40 { // the kernel's limit
			return nil, PathError(path, syscall.ELOOP)
		}
		target, err := d.readLink(name, info)
		if err != nil {
			return nil, err
		}
		if filepath.IsAbs(target) {
			d.close(1)
		}
		rest = slices.Concat(elements(target), rest)
	}
	last := d.here()
	if info, err = last.Stat("."); err != nil {
		return nil, PathError(last.Name(), err)
	}
	if err := checkOwn(last.Name(), info); err != nil {
		return nil, err
	}
	d = d[:len(d)-1]
	return last, nil
}

// descent holds the open directories from / down to the current one.
type descent []*os.Root

func (d descent) here() *os.Root { return d[len(d)-1] }

// close closes all directories except the first ones. keep is the number of directories that stay open.
func (d *descent) close(keep int) {
	for _, dir := range (*d)[keep:] {
		dir.Close()
	}
	*d = (*d)[:keep]
}

// lookUp returns information about the named file in the current directory, without following links. If the file
// doesn't exist and create is true, lookUp creates a directory.
func (d descent) lookUp(name string, create bool) (fs.FileInfo, error) {
	info, err := d.here().Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err = d.here().Mkdir(name, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
			info, err = d.here().Lstat(name)
		}
	}
	if err != nil {
		return nil, PathError(filepath.Join(d.here().Name(), name), err)
	}
	return info, nil
}

// readLink returns the target of a link. It returns an error unless the link belongs to root or the effective user.
func (d descent) readLink(name string, info fs.FileInfo) (string, error) {
	at := filepath.Join(d.here().Name(), name)
	if err := checkOwner(at, info, 0, os.Geteuid()); err != nil {
		return "", err
	}
	target, err := d.here().Readlink(name)
	if err != nil {
		return "", PathError(at, err)
	}
	return target, nil
}

// elements returns the elements of a path. It keeps "..", because the element before it may be a link.
func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// OpenSub opens the named directory in dir, checking that only the effective user can modify it. It rejects links.
func OpenSub(dir *os.Root, name string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, PathError(filepath.Join(dir.Name(), name), err)
	}
	return enter(dir, name, info, checkOwn)
}

// enter opens the named directory in dir, and calls check both before and after opening it. info is the result of
// Lstat. enter rejects links.
func enter(dir *os.Root, name string, info fs.FileInfo, check func(string, fs.FileInfo) error) (*os.Root, error) {
	path := filepath.Join(dir.Name(), name)
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: found a file of mode %s, want a directory", path, info.Mode())
	}
	if err := check(path, info); err != nil {
		return nil, err
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, PathError(path, err)
	}
	opened, err := sub.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = ErrReplaced
	}
	if err == nil {
		err = check(path, opened)
	}
	if err != nil {
		sub.Close()
		return nil, PathError(path, err)
	}
	return sub, nil
}

// OpenFile opens the named regular file in dir. Both before and after opening it, OpenFile checks that only the
// effective user can modify it. It rejects links, FIFOs and devices.
func OpenFile(dir *os.Root, name string, flag int) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, PathError(path, err)
	}
	if err := checkOwnFile(path, info); err != nil {
		return nil, err
	}
	file, err := dir.OpenFile(name, flag|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, PathError(path, err)
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = ErrReplaced
	}
	if err == nil {
		err = checkOwnFile(path, opened)
	}
	if err != nil {
		file.Close()
		return nil, PathError(path, err)
	}
	return file, nil
}

// ErrReplaced is the error for a file that another process replaced while it was being opened.
var ErrReplaced = errors.New("replaced while it was opened")

// CheckRegular returns an error unless info describes a regular file.
func CheckRegular(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: found a file of mode %s, want a regular file", path, info.Mode())
	}
	return nil
}

func checkOwnFile(path string, info fs.FileInfo) error {
	if err := CheckRegular(path, info); err != nil {
		return err
	}
	return checkOwn(path, info)
}

// checkOwn returns an error unless the file or directory that info describes belongs to the effective user and no other
// user can write to it.
func checkOwn(path string, info fs.FileInfo) error {
	if err := checkOwner(path, info, os.Geteuid()); err != nil {
		return err
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 {
		return fmt.Errorf("%s: found mode %#o, want it not writable by group and others: chmod go-w %[1]s", path, mode.Perm())
	}
	return nil
}

// checkParent is like checkOwn, but for a directory above the one to open. Such a directory may also belong to root.
// Other users may be able to write to it as long as it has the sticky bit, which keeps them from renaming or removing
// files that aren't theirs.
func checkParent(path string, info fs.FileInfo) error {
	if err := checkOwner(path, info, 0, os.Geteuid()); err != nil {
		return err
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
		return fmt.Errorf("%s: found mode %#o, want it not writable by group and others, or with the sticky bit: chmod go-w %[1]s", path, mode.Perm())
	}
	return nil
}

func checkOwner(path string, info fs.FileInfo, uids ...int) error {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if slices.Contains(uids, owner) {
		return nil
	}
	return &OwnerError{Path: path, UID: owner, Want: uids[len(uids)-1]}
}

// OwnerError is the error for a file or directory that belongs to another user.
type OwnerError struct {
	Path string
	UID  int // the owner
	Want int // the effective user
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s: found owner uid %d, want %d: chown -h %[3]d %[1]s", e.Path, e.UID, e.Want)
}

// PathError replaces the path in err with the given one, because errors from [os.Root] only contain the last element of
// a path.
func PathError(path string, err error) error {
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		err = inner.Err
	} else if link := (*os.LinkError)(nil); errors.As(err, &link) {
		err = link.Err
	} else if strings.HasPrefix(err.Error(), path+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
