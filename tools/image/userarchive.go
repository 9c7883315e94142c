package main

import (
	"os"
	"path"
	"path/filepath"
	"time"
)

// writeUserArchive writes the archive for machines that run the binaries without an image. It also adds the files given
// as arguments.
func (a arguments) writeUserArchive(binaries []Binary, source []byte, licences map[string][]byte, at time.Time) error {
	files := userArchive(binaries, source, licences)
	for _, file := range a.files {
		if err := files.Read(filepath.Base(file), file); err != nil {
			return err
		}
	}
	archive, err := files.Gzip(at)
	if err != nil {
		return err
	}
	return os.WriteFile(a.userArchive, archive, 0o644)
}

// userArchive returns the binaries, their source unless it is nil, and the licences of everything in the binaries.
func userArchive(binaries []Binary, source []byte, licences map[string][]byte) Files {
	files := make(Files)
	for _, b := range binaries {
		files[b.Name] = File{Mode: 0o755, Data: b.Data}
	}
	if source != nil {
		files["source.tar.gz"] = File{Mode: 0o644, Data: source}
	}
	for where, text := range licences {
		files[path.Join("licenses", where)] = File{Mode: 0o644, Data: text}
	}
	return files
}
