package sysfs

import (
	"bytes"
	"hash/maphash"
	"os"
	"syscall"
)

// Observation records the state of a path at the time it was read, as a 64-bit hash whose seed is specific to this
// process. Comparing an observation with the current state takes a single access to the path and no parsing.
type Observation struct {
	path string
	kind observed
	size uint16 // for a prefix
	sum  uint64 // 0 if the entry is missing
}

type observed uint8

const (
	attribute observed = iota // a value, as returned by Read
	prefix                    // the first bytes of a binary file, as returned by ReadFull
	identity                  // a file's type, inode and device number
	existence                 // a file's existence
	listing                   // the names in a directory
)

var seed = maphash.MakeSeed()

// ObserveValue records that [Read] returned value for path.
func ObserveValue(path, value string) Observation {
	return Observation{path: path, kind: attribute, sum: maphash.String(seed, value)}
}

// ObservePrefix records that [ReadFull] read p at path. p must not be longer than 4096 bytes.
func ObservePrefix(path string, p []byte) Observation {
	return Observation{path: path, kind: prefix, size: uint16(len(p)), sum: maphash.Bytes(seed, p)}
}

// ObserveEntry records the type, inode and device number of the file at path, or its absence. It doesn't open the file.
// A caller that checks the file must call ObserveEntry before the check, because otherwise a change in between would go
// unnoticed.
func ObserveEntry(path string) Observation {
	return Observation{path: path, kind: identity, sum: entrySum(path)}
}

// ObserveExists records that there is a file at path. It doesn't access the file.
func ObserveExists(path string) Observation { return Observation{path: path, kind: existence} }

// ObserveNames records that the directory at path has entries with these names, in any order.
func ObserveNames(path string, names []string) Observation {
	return Observation{path: path, kind: listing, sum: namesSum(names)}
}

// namesSum returns a hash of the names that doesn't depend on their order.
func namesSum(names []string) (sum uint64) {
	for _, name := range names {
		sum += maphash.String(seed, name)
	}
	return sum
}

// Unchanged reports whether all observations still hold. It stops at the first one that doesn't or that can't be
// checked. Like Read, it may block.
func Unchanged(all []Observation) bool {
	for i := range all {
		if !all[i].holds() {
			return false
		}
	}
	return true
}

// longestChecked is the maximum length of a value that Unchanged compares; longer values count as changed. The PCI
// error counts, which are the longest values in the health table, are about 600 bytes long.
const longestChecked = 1023

func (o *Observation) holds() bool {
	switch o.kind {
	case identity:
		return entrySum(o.path) == o.sum
	case existence:
		_, err := lstat(o.path)
		return err == nil
	case listing:
		return namesSum(names(o.path)) == o.sum
	}
	var buf [longestChecked + 1]byte
	room := buf[:]
	if o.kind == prefix {
		room = room[:min(int(o.size), len(room))] // read exactly this many bytes, as in ReadFull
	}
	fd, err := open(o.path)
	if err != nil {
		return false
	}
	n, err := read(fd, room)
	syscall.Close(fd) // as in Read
	if err != nil {
		return false
	}
	if o.kind == prefix {
		return maphash.Bytes(seed, room[:n]) == o.sum
	}
	return n < len(room) && maphash.Bytes(seed, bytes.TrimRight(room[:n], "\n\x00")) == o.sum
}

// entrySum returns a hash of the type, inode and device number of the file at path, or 0 if there is no file.
func entrySum(path string) uint64 {
	st, err := lstat(path)
	if err != nil {
		return 0
	}
	return maphash.Comparable(seed, [...]uint64{uint64(st.Mode), st.Ino, uint64(st.Rdev)})
}

// names returns the names in a directory, or nil if it can't be read.
func names(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	return names
}
