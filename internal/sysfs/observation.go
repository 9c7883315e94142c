package sysfs

import (
	"bytes"
	"hash/maphash"
	"syscall"
)

// Observation is the state of one path when it was read. To compare it with the present
// state takes one access to that path: nothing is listed or parsed. An Observation has a
// hash of the content, 64 bits with a seed of this process.
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

// ObserveValue returns the observation that [Read] returned value for path.
func ObserveValue(path, value string) Observation {
	return Observation{path: path, kind: attribute, sum: maphash.String(seed, value)}
}

// ObservePrefix returns the observation that [ReadFull] read these bytes at path, at most
// 4096.
func ObservePrefix(path string, p []byte) Observation {
	return Observation{path: path, kind: prefix, size: uint16(len(p)), sum: maphash.Bytes(seed, p)}
}

// ObserveEntry returns an observation of which file is at path: a link, a device node or
// nothing. It opens nothing. A caller that checks the file must make the observation
// before the check: a later one could hide a change between the two.
func ObserveEntry(path string) Observation {
	return Observation{path: path, kind: identity, sum: entrySum(path)}
}

// ObserveThere returns the observation that there is a file at path. It does not access
// the file.
func ObserveThere(path string) Observation { return Observation{path: path, kind: there} }

// Unchanged reports whether every observation still holds. It stops at the first that does
// not hold or cannot be made again. It may block, as Read does.
func Unchanged(all []Observation) bool {
	for i := range all {
		if !all[i].holds() {
			return false
		}
	}
	return true
}

// longestChecked is the length of the longest value that can be found unchanged. The
// longest values that are judged, the counts of PCI errors, have some 600 bytes.
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

// entrySum returns a hash of which file is at path, or 0 if there is none.
func entrySum(path string) uint64 {
	st, err := lstat(path)
	if err != nil {
		return 0
	}
	return maphash.Comparable(seed, [...]uint64{uint64(st.Mode), st.Ino, uint64(st.Rdev)})
}
