package sysfs

import (
	"bytes"
	"hash/maphash"
	"syscall"
)

// Observation is what was found at one path when it was read. Whether the same is
// still there takes one look at that path: nothing is listed or parsed. Of what was
// found a hash is kept, 64 bits with a seed of this process.
type Observation struct {
	path string
	kind observed
	size uint16 // of a prefix
	sum  uint64 // 0 where the entry is missing
}

type observed uint8

const (
	attribute observed = iota // all of a file, as Read returns it
	prefix                    // the first bytes of a binary file, as ReadFull returns them
	identity                  // which file it is
	there                     // that there is one
)

var seed = maphash.MakeSeed()

// ObserveValue is the observation that [Read] returned value for path.
func ObserveValue(path, value string) Observation {
	return Observation{path: path, kind: attribute, sum: maphash.String(seed, value)}
}

// ObservePrefix is the observation that [ReadFull] read these bytes at path: no more
// than 4096.
func ObservePrefix(path string, p []byte) Observation {
	return Observation{path: path, kind: prefix, size: uint16(len(p)), sum: maphash.Bytes(seed, p)}
}

// ObserveEntry looks at path, which may be a link, a device node or nothing, and
// notes which file is there. It opens nothing. Whoever judges the file makes the
// observation first: one made later could hide a change between the two.
func ObserveEntry(path string) Observation {
	return Observation{path: path, kind: identity, sum: entrySum(path)}
}

// ObserveThere is the observation that there is a file at path. It does not look.
func ObserveThere(path string) Observation { return Observation{path: path, kind: there} }

// Unchanged reports whether every observation still holds. It stops at the first
// that does not, or that cannot be made again for whatever reason. It may block, as
// Read does.
func Unchanged(all []Observation) bool {
	for i := range all {
		if !all[i].holds() {
			return false
		}
	}
	return true
}

// longestChecked is the longest value that can be found unchanged: the counts of PCI
// errors, which are the longest that are judged, take some 600 bytes.
const longestChecked = 1023

func (o *Observation) holds() bool {
	switch o.kind {
	case identity:
		return entrySum(o.path) == o.sum
	case there:
		is, _ := exists(o.path)
		return is
	}
	var buf [longestChecked + 1]byte
	room := buf[:]
	if o.kind == prefix {
		room = room[:min(int(o.size), len(room))] // no byte more, as in ReadFull
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

// entrySum is 0 where nothing can be found at path.
func entrySum(path string) uint64 {
	st, err := lstat(path)
	if err != nil {
		return 0
	}
	return maphash.Comparable(seed, [...]uint64{uint64(st.Mode), st.Ino, uint64(st.Rdev)})
}
