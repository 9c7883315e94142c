package privatedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadFile returns the content of the named regular file in dir. It returns an error if other users can modify the
// file, or if the file is larger than limit bytes. If there is no such file, the error wraps [fs.ErrNotExist].
func ReadFile(dir *os.Root, name string, limit int64) ([]byte, error) {
	file, err := OpenFile(dir, name, os.O_RDONLY)
	for errors.Is(err, ErrReplaced) { // another process called ReplaceFile
		file, err = OpenFile(dir, name, os.O_RDONLY)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	path := filepath.Join(dir.Name(), name)
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, PathError(path, err)
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s: found more than %d bytes, want at most %[2]d", path, limit)
	}
	return text, nil
}

// DecodeJSON decodes a file's content like [json.Unmarshal], but also returns an error if there are unknown fields.
func DecodeJSON(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("found text after the JSON object")
	}
	return nil
}

// newSuffix is appended to the name of a new file until it replaces the old one.
const newSuffix = ".new"

// ReplaceFile atomically replaces the named file in dir with a file that contains text and has mode 0600. After a
// crash, either the old file or the new one exists. ReplaceFile also overwrites a temporary file left behind by a
// process that was killed, so the caller must hold a lock against other writers. replaced reports whether the file was
// replaced. If it was replaced but err is non-nil, a power loss may bring back the old file.
func ReplaceFile(dir *os.Root, name string, text []byte) (replaced bool, err error) {
	next := name + newSuffix
	if err = fill(dir, next, text); err != nil {
		err = PathError(filepath.Join(dir.Name(), next), err)
	} else if err = dir.Rename(next, name); err != nil {
		err = PathError(filepath.Join(dir.Name(), name), err)
	}
	if err != nil {
		_ = dir.Remove(next)
		return false, err
	}
	return true, SyncDir(dir)
}

// RemoveFile removes the named file from dir, if it exists. If there is an error, the file may still exist.
func RemoveFile(dir *os.Root, name string) error {
	switch err := dir.Remove(name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return PathError(filepath.Join(dir.Name(), name), err)
	}
	return SyncDir(dir)
}

// fill creates a file that contains text and syncs it to disk.
func fill(dir *os.Root, name string, text []byte) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// SyncDir syncs dir's entries to disk.
func SyncDir(dir *os.Root) error {
	file, err := dir.Open(".")
	if err == nil {
		err = errors.Join(file.Sync(), file.Close())
	}
	if err != nil {
		return fmt.Errorf("changed, but perhaps not on the disk: %w", PathError(dir.Name(), err))
	}
	return nil
}
