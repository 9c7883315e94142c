package main

import (
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

// Source returns the source code of binaries built from the given modules below tree, as a .tar.gz. It contains the
// work tree's files that git tracks, and for each module a vendor/ directory with the packages from other modules, so
// that `make build-plugin` and `make build-dra` need only Go. at is the modification time of all files. The VERSION
// file contains the binaries' version, because the Makefile in the archive can't get it from git. The caller must make
// sure that the binaries were built from the module versions in go.mod.
func Source(tree string, modules []string, version string, at time.Time) ([]byte, error) {
	top := project + "-" + version
	files, err := trackedFiles(tree, top)
	if err != nil {
		return nil, err
	}
	files[path.Join(top, "VERSION")] = File{Mode: 0o644, Data: []byte(version + "\n")}
	for _, module := range modules {
		if err := addVendor(files, path.Join(top, module, "vendor"), filepath.Join(tree, module)); err != nil {
			return nil, err
		}
	}
	return files.Gzip(at)
}

// addVendor adds the packages that a module needs from other modules, below the given path.
func addVendor(files Files, where, module string) error {
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
		return files.Read(path.Join(where, filepath.ToSlash(below)), file)
	})
}

// trackedFiles returns the files in a work tree that git tracks, with their contents on disk. Their paths start with
// top.
func trackedFiles(tree, top string) (Files, error) {
	list, err := command(tree, "git", "ls-files", "-z")
	if err != nil {
		return nil, fmt.Errorf("%s: found no list of source files, want a git work tree: %w", tree, err)
	}
	files := make(Files)
	for where := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		err := files.Read(path.Join(top, where), filepath.Join(tree, where))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a file may be missing because its removal hasn't been committed yet
			return nil, err
		}
	}
	return files, nil
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
