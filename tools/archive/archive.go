// Package archive writes reproducible archives, which depend only on the files in them: the files are sorted, belong to
// root, and all have the same time.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// File is a file in an archive.
type File struct {
	Mode fs.FileMode
	Data []byte // content; for a symbolic link, its target
}

// Files contains an archive's files, by path without a leading slash.
type Files map[string]File

// Tar returns a sorted tar archive of the files and their directories. All entries belong to root, and at is their
// modification time.
func (f Files) Tar(at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	var makeDir func(dir string) error
	makeDir = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := makeDir(path.Dir(dir)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Format: tar.FormatPAX})
	}
	for _, where := range slices.Sorted(maps.Keys(f)) {
		if err := makeDir(path.Dir(where)); err != nil {
			return nil, err
		}
		file := f[where]
		if file.Mode&fs.ModeSymlink != 0 {
			header := &tar.Header{Typeflag: tar.TypeSymlink, Name: where, Linkname: string(file.Data), Mode: 0o777, ModTime: at, Format: tar.FormatPAX}
			if err := w.WriteHeader(header); err != nil {
				return nil, err
			}
			continue
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: where, Size: int64(len(file.Data)), Mode: int64(file.Mode.Perm()), ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil { // writes the end of the archive
		return nil, err
	}
	return out.Bytes(), nil
}

// Write replaces dir's contents with the files, none of which may be a link.
func (f Files) Write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for where, file := range f {
		where = filepath.Join(dir, where)
		if err := os.MkdirAll(filepath.Dir(where), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(where, file.Data, file.Mode); err != nil {
			return err
		}
	}
	return nil
}

// Gzip returns the files as a .tar.gz.
func (f Files) Gzip(at time.Time) ([]byte, error) {
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

// Read reads a file from disk and adds it at the given path. The added file gets the permissions that git would record,
// so the umask has no effect. Symbolic links stay links.
func (f Files) Read(where, file string) error {
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

// AddJSON adds a file that contains v as JSON.
func (f Files) AddJSON(where string, v any) error {
	data, err := json.Marshal(v)
	f[where] = File{0o644, data}
	return err
}
