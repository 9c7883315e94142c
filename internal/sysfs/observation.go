package sysfs

import (
	"bytes"
	"hash/maphash"
	"os"
	"syscall"
)

// Observation is the state of one path when it was read. It contains a hash of the content, 64 bits with a seed of this
// process. To compare it with the current state, the path is accessed once, and nothing is listed or parsed.
type Observation struct {
	path string
	kind observed
	size uint16 // of a prefix
	sum  uint64 // 0 where the entry is missing
}

type observed uint8

const (
	attribute observed = iota // the content of a file, as Read returns it
	prefix                    // the first bytes of a binary file, as ReadFull returns them
	identity                  // the type, inode and device number of a file
	existence                 // the existence of a file
	listing                   // the names in a directory
)

var seed = maphash.MakeSeed()

// ObserveValue returns the observation that [Read] returned value for path.
func ObserveValue(path, value string) Observation {
	return Observation{path: path, kind: attribute, sum: maphash.String(seed, value)}
}

// ObservePrefix returns the observation that [ReadFull] read these bytes at path. It accepts at
// most 4096 bytes.
func ObservePrefix(path string, p []byte) Observation {
	return Observation{path: path, kind: prefix, size: uint16(len(p)), sum: maphash.Bytes(seed, p)}
}

// ObserveEntry returns an observation of the type, inode and device number of the file at path,
// or of its absence. It does not open the file. A caller that checks the file must make the
// observation before the check: a later observation could hide a change between the two.
func ObserveEntry(path string) Observation {
	return Observation{path: path, kind: identity, sum: entrySum(path)}
}

// ObserveExists returns the observation that there is a file at path. It does not access
// the file.
func ObserveExists(path string) Observation { return Observation{path: path, kind: existence} }

// ObserveNames returns the observation that the directory at path has entries with these names, in any order.
func ObserveNames(path string, names []string) Observation {
	return Observation{path: path, kind: listing, sum: namesSum(names)}
}

// namesSum returns a hash of the names that does not depend on their order.
func namesSum(names []string) (sum uint64) {
	for _, name := range names {
		sum += maphash.String(seed, name)
	}
	return sum
}

// Unchanged reports whether every observation still holds. It stops at the first one that does
// not hold or that it cannot repeat. It may block, as Read does.
func Unchanged(all []Observation) bool {
	for i := range all {
		if !all[i].holds() {
			return false
		}
	}
	return true
}

// longestChecked is the greatest length of a value that Unchanged compares; a longer value counts
// as changed. The longest values of the health table, the counts of PCI errors, have some 600
// bytes.
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
		room = room[:min(int(o.size), len(room))] // exactly these bytes, as in ReadFull
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

// entrySum returns a hash of the type, inode and device number of the file at path, or 0 if there
// is no file.
func entrySum(path string) uint64 {
	st, err := lstat(path)
	if err != nil {
		return 0
	}
	return maphash.Comparable(seed, [...]uint64{uint64(st.Mode), st.Ino, uint64(st.Rdev)})
}

// names returns the names in a directory, or nil if it cannot be read.
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
