package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// project is the name of this project.
const project = "accelerator-device-plugin"

// Binary is a program of the image.
type Binary struct {
	Name string
	Data []byte
	Info *buildinfo.BuildInfo
}

// File is a file of an archive.
type File struct {
	Mode fs.FileMode
	Data []byte // of a symbolic link, its target
}

// Files are the files of an archive, by their paths without leading slash.
type Files map[string]File

// SourceArchive is the path of the source code of the binaries.
const SourceArchive = "/usr/src/" + project + ".tar.gz"

// Rootfs returns the files of the image: the binaries, their source code if it is not nil, and
// licences by their paths below /licenses, where certifications of images look for them.
func Rootfs(binaries []Binary, source []byte, licences map[string][]byte) Files {
	files := make(Files)
	if source != nil {
		files[SourceArchive[1:]] = File{0o644, source}
	}
	for _, b := range binaries {
		files[path.Join("usr/bin", b.Name)] = File{0o755, b.Data}
	}
	for where, text := range licences {
		files[path.Join("licenses", where)] = File{0o644, text}
	}
	return files
}

// Tar returns an archive of the files, sorted, with their directories. All belong to root
// and have the time at.
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

// Write replaces the contents of dir by the files. None of them may be a link.
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
