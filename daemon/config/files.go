package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Files holds the two YAML files as they were when Read was called.
type Files struct {
	config, overrides contents
	at                time.Time // when Read was called
}

// contents is a YAML file as it was read. The zero value means that there is no file.
type contents struct {
	path  string
	found bool
	text  string
	err   error

	others []string // if there is no file, the keys of the ConfigMap that should contain it
}

// mostBytes is the maximum size of a file. It is low because in memory, a YAML document can take up to a hundred times
// its size.
const mostBytes = 256 << 10

// Read reads the files. Errors are stored in the result and returned by [Loader.Load] and [Loader.Reload].
func (l *Loader) Read() Files {
	files := Files{at: time.Now()}
	files.config, files.overrides = read("config", l.Config.File), read("overrides", l.Config.Overrides)
	if errors.Is(files.overrides.err, fs.ErrNotExist) {
		files.overrides.err, files.overrides.others = nil, keysOf(filepath.Dir(l.Config.Overrides))
	}
	return files
}

// keysOf returns the keys of the ConfigMap whose volume is mounted at dir, or nil if there is no such volume at dir.
func keysOf(dir string) (keys []string) {
	if _, err := os.Lstat(filepath.Join(dir, "..data")); err != nil {
		return nil
	}
	entries, _ := os.ReadDir(dir) // reading the file will report the same error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") {
			keys = append(keys, e.Name())
		}
	}
	return keys
}

// OtherKeys returns the keys of the ConfigMap that should contain the overrides, if the overrides are missing from it.
func (f Files) OtherKeys() []string { return f.overrides.others }

// HasFiles reports whether there are any files to reread.
func (l *Loader) HasFiles() bool { return l.Config.File != "" || l.Config.Overrides != "" }

func read(kind, path string) (t contents) {
	if t.path = path; path == "" {
		return t
	}
	content, err := readRegular(path)
	if t.err = err; err != nil {
		t.err = fmt.Errorf("%s file: %w", kind, err)
		return t
	}
	t.found, t.text = true, string(content)
	return t
}

// readRegular returns the content of a regular file. It rejects pipes, which can only be read once and may block.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: found a file of mode %s, want a regular file", path, info.Mode())
	}
	content, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err == nil && len(content) > mostBytes {
		err = fmt.Errorf("%s: found more than %d bytes, want at most %[2]d", path, mostBytes)
	}
	return content, err
}

// Before reports whether f was read before other.
func (f Files) Before(other Files) bool { return f.at.Before(other.at) }

// Equal reports whether f and other have the same contents or the same errors.
func (f Files) Equal(other Files) bool {
	return f.config.equal(other.config) && f.overrides.equal(other.overrides)
}

func (t contents) equal(other contents) bool {
	if t.err != nil || other.err != nil {
		return t.err != nil && other.err != nil && t.err.Error() == other.err.Error()
	}
	return t.found == other.found && t.text == other.text && slices.Equal(t.others, other.others)
}

// Hash returns the first 12 hexadecimal digits of the SHA-256 of the configuration file followed by the overrides, or
// "" if there is neither.
func (f Files) Hash() string {
	if !f.config.found && !f.overrides.found {
		return ""
	}
	sum := sha256.Sum256([]byte(f.config.text + f.overrides.text))
	return hex.EncodeToString(sum[:6])
}
