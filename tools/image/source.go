package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Source returns the source code of binaries of these modules below tree, as a .tar.gz: the files of
// the work tree that git tracks, and for each module the packages of other modules in its vendor/. `make
// build-plugin`, or `make build-dra`, in it needs only Go. All files have the time at. The caller must
// make sure that the binaries were built from the module versions in go.mod. The file VERSION has the
// version of the binaries, which the Makefile of the archive cannot ask git for.
func Source(tree string, modules []string, version string, at time.Time) ([]byte, error) {
	top := project + "-" + version
	files, err := trackedFiles(tree, top)
	if err != nil {
		return nil, err
	}
	files[path.Join(top, "VERSION")] = File{0o644, []byte(version + "\n")}
	for _, module := range modules {
		if err := files.vendor(path.Join(top, module, "vendor"), filepath.Join(tree, module)); err != nil {
			return nil, err
		}
	}
	return files.gzipped(at)
}

// gzipped returns a .tar.gz of the files.
func (f Files) gzipped(at time.Time) ([]byte, error) {
	archive, err := f.Tar(at)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(archive); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil { // writes the end of the archive
		return nil, err
	}
	return out.Bytes(), nil
}

// vendor adds below where the packages of other modules that a module needs.
func (f Files) vendor(where, module string) error {
	vendor, err := os.MkdirTemp("", "vendor")
	if err != nil {
		return err
	}
	defer os.RemoveAll(vendor)
	if _, err := command(module, "go", "mod", "vendor", "-o", vendor); err != nil {
		return err
	}
	return filepath.WalkDir(vendor, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(vendor, file)
		if err != nil {
			return err
		}
		return f.read(path.Join(where, filepath.ToSlash(below)), file)
	})
}

// trackedFiles returns the files of a work tree that git tracks, with their contents on disk, by
// their paths below top. Untracked files are left out.
func trackedFiles(tree, top string) (Files, error) {
	list, err := command(tree, "git", "ls-files", "-z")
	if err != nil {
		return nil, fmt.Errorf("%s: found no list of source files, want a git work tree: %w", tree, err)
	}
	files := make(Files)
	for where := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		err := files.read(path.Join(top, where), filepath.Join(tree, where))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a removal that is not committed yet
			return nil, err
		}
	}
	return files, nil
}

// read adds a file as it is on disk, but with the permissions that git records, so that
// the umask has no effect. A symbolic link stays a link.
func (f Files) read(where, file string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(file)
		f[where] = File{fs.ModeSymlink | 0o777, []byte(target)}
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: found %v, want a regular file or a symbolic link", file, info.Mode())
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	data, err := os.ReadFile(file)
	f[where] = File{mode, data}
	return err
}

// command runs a program in a directory and returns its output.
func command(dir, program string, args ...string) ([]byte, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, args[0], err)
	}
	return out, nil
}
