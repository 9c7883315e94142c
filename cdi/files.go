package cdi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// files holds the paths of the spec's files.
type files struct {
	dir  string
	spec string // DIR/fpga.intel.com-fpga.json
	lock string // DIR/.fpga.intel.com-fpga.lock
	temp string // prefix of temporary file names
	last *checked
}

// filesOf returns the paths of the files in dir for the spec with the given name, such as fpga.intel.com-fpga.
func filesOf(dir, name string) files {
	return files{
		dir: dir, spec: filepath.Join(dir, name+".json"), lock: filepath.Join(dir, "."+name+".lock"), temp: "." + name + ".",
		last: &checked{},
	}
}

// checked is the spec file's state when its content was last written or compared. As long as that state hasn't changed,
// the file doesn't have to be read, so Allocate works even if the process has run out of file descriptors.
type checked struct {
	info    fs.FileInfo // nil if unknown
	content *content    // nil if unknown or if there is no file
}

// unchanged reports whether the file at path is the one that was checked, hasn't been modified since, and has the
// wanted content. It doesn't open any files.
func (c *checked) unchanged(path string, want []byte) bool {
	info, err := os.Lstat(path)
	if err != nil || c.info == nil || !bytes.Equal(c.content.bytes, want) {
		return false
	}
	now, then := info.Sys().(*syscall.Stat_t), c.info.Sys().(*syscall.Stat_t)
	return os.SameFile(info, c.info) && now.Size == then.Size && now.Mtim == then.Mtim && now.Ctim == then.Ctim
}

const tempSuffix = ".tmp"

// put writes the desired content to the spec file, or removes the file if it shouldn't exist.
func (f files) put(wanted *content) error {
	switch {
	case len(wanted.bytes) == 0:
		return f.remove()
	case f.has(wanted):
		return nil
	}
	return f.replace(wanted)
}

// open opens the spec for reading. It doesn't follow symbolic links or block on a pipe, and returns an error unless it
// is a regular file.
func (f files) open() (*os.File, fs.FileInfo, error) {
	file, err := os.OpenFile(f.spec, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = syscall.EISDIR
	case !info.Mode().IsRegular():
		err = fmt.Errorf("found %v, want a regular file", info.Mode())
	default:
		return file, info, nil
	}
	file.Close()
	return nil, nil, err
}

// has reports whether the spec is a regular file that contains exactly want and is readable by all users.
func (f files) has(want *content) bool {
	file, info, err := f.open()
	if err != nil {
		return f.last.unchanged(f.spec, want.bytes)
	}
	defer file.Close()
	if info.Mode()&0o444 != 0o444 || info.Size() != int64(len(want.bytes)) {
		return false
	}
	got := make([]byte, len(want.bytes))
	_, err = io.ReadFull(file, got)
	if err != nil || !bytes.Equal(got, want.bytes) {
		return false
	}
	*f.last = checked{info, want}
	return true
}

// maxSpec is the maximum size of a spec that [files.stale] reads, in bytes. A spec with 1000 devices is about 300 kB.
const maxSpec = 4 << 20

// stale reports whether the spec gives any device the wrong nodes, variables or hook. A file that can't be read or
// parsed is stale. If the process doesn't have the file descriptors or memory to read the file, stale relies on the
// content that was last found in it.
func (f files) stale(wanted *content) bool {
	file, _, err := f.open()
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR):
		return false // there is no file for a runtime to read
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return f.last.content == nil || !wanted.covers(&f.last.content.spec)
	default:
		return true
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSpec))
	if err != nil {
		return true
	}
	found, err := cdi.ParseSpec(text)
	return err != nil || found == nil || !wanted.covers(found)
}

// replace atomically replaces the old file with a new one. The old file may be of any type except a directory. If
// replace returns an error, the old file is unchanged.
func (f files) replace(wanted *content) (err error) {
	if info, err := os.Lstat(f.spec); err == nil && info.IsDir() {
		return fmt.Errorf("found a directory, want a regular file or none: %w", syscall.EISDIR)
	}
	temp, err := os.CreateTemp(f.dir, f.temp+"*"+tempSuffix)
	if err != nil {
		return withoutPath(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
			err = withoutPath(err)
		}
	}()
	if err := fill(temp, wanted.bytes); err != nil {
		return err
	}
	if err := wanted.check(temp.Name()); err != nil {
		return err
	}
	written, err := os.Lstat(temp.Name())
	if err == nil {
		err = os.Rename(temp.Name(), f.spec)
	}
	if err != nil {
		return err
	}
	*f.last = checked{content: wanted}
	if info, err := os.Lstat(f.spec); err == nil && os.SameFile(info, written) {
		f.last.info = info
	}
	return nil
}

// withoutPath removes file names from an error, because errors are logged only if they differ from the previous one,
// and the temporary file has a different name at each attempt.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", path.Op, path.Err)
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Errorf("%s: %w", link.Op, link.Err)
	}
	return err
}

// fill writes, syncs and closes a file. Without the sync, the file could be empty after a power failure. The directory
// doesn't have to be synced, because if the old file reappears after a power failure, the next daemon's first Write
// replaces it.
func fill(file *os.File, text []byte) error {
	_, err := file.Write(text)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// remove removes the spec. If there is a directory with the spec's name, remove leaves it in place, because CDI readers
// ignore directories.
func (f files) remove() error {
	switch err := syscall.Unlink(f.spec); {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR):
		*f.last = checked{}
		return nil
	default:
		return &fs.PathError{Op: "remove", Path: f.spec, Err: err}
	}
}

// removeLeftovers removes temporary files left by killed daemons. The caller must hold the exclusive lock, because
// another daemon may be writing such a file.
func (f files) removeLeftovers() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if !entry.Type().IsRegular() || !strings.HasPrefix(name, f.temp) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// makeDir creates the directory if it doesn't exist. All users can read it, regardless of the umask.
func (f files) makeDir() error {
	if _, err := os.Stat(f.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(f.dir, 0o755)
}
