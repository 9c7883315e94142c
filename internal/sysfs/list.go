package sysfs

import (
	"encoding/binary"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// Entry is one name in a directory.
type Entry struct {
	Name string
	Dir  bool // a directory, not a link to one
}

// List returns what is in the directory at path, sorted by name. A card has a
// dozen directories that are listed every few seconds: this costs about half of
// what os.ReadDir does, which makes a file with a finalizer of each, and entries
// that are looked at lazily. Errors are *fs.PathError and wrap the errno.
func List(path string) ([]Entry, error) {
	fd, err := open(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	var entries []Entry
	var buf [4096]byte
	for {
		n, err := syscall.Getdents(fd, buf[:])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "readdirent", Path: path, Err: err}
		case n <= 0:
			slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
			return entries, nil
		}
		if entries, err = appendEntries(entries, path, buf[:n]); err != nil {
			return nil, err
		}
	}
}

// appendEntries takes apart what getdents64(2) has filled:
//
//	u64 inode, s64 offset, u16 length of the record, u8 type, name NUL …
//
// The only errors are those of [OwnTrouble].
func appendEntries(entries []Entry, path string, records []byte) ([]Entry, error) {
	const nameAt = 19
	for len(records) > nameAt {
		length := int(binary.NativeEndian.Uint16(records[16:]))
		if length <= nameAt || length > len(records) {
			return entries, nil // malformed: the kernel writes no such record
		}
		kind, name := records[18], records[nameAt:length]
		records = records[length:]
		if end := slices.Index(name, 0); end >= 0 {
			name = name[:end]
		}
		if s := string(name); s != "." && s != ".." {
			dir, err := isDirectory(kind, path, s)
			if err != nil {
				return entries, err
			}
			entries = append(entries, Entry{s, dir})
		}
	}
	return entries, nil
}

// isDirectory goes by the type of a record; file systems that have none there
// (DT_UNKNOWN) are asked.
func isDirectory(kind byte, dir, name string) (bool, error) {
	if kind != syscall.DT_UNKNOWN {
		return kind == syscall.DT_DIR, nil
	}
	st, err := lstat(dir + "/" + name)
	return err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR, ownOnly(err)
}
