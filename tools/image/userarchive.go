package main

import (
	"path"
	"time"
)

// userArchive returns a .tar.gz for the machine of a user: a binary, and the licences of what it contains.
func userArchive(b Binary, licences map[string][]byte, at time.Time) ([]byte, error) {
	files := Files{b.Name: {0o755, b.Data}}
	for where, text := range licences {
		files[path.Join("licenses", where)] = File{0o644, text}
	}
	return files.gzipped(at)
}
