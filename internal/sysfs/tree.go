package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// ClassLinks returns the names of the links in a class directory, sorted. Only
// links count: the kernel puts nothing else there. A class that does not exist
// has none.
func (h Host) ClassLinks(class string) ([]string, error) {
	entries, err := os.ReadDir(h.classPath(class))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// ClassTarget returns where the link NAME of a class leads, as it stands there.
// An entry that is not a link is an error (EINVAL).
func (h Host) ClassTarget(class, name string) (string, error) {
	return os.Readlink(h.classPath(class) + "/" + name)
}

// ClassCard returns the PCI address that the device link of a class entry leads
// to, "" where it leads to something else. The link is not followed further:
// nothing is opened that a dead card could hold up.
func (h Host) ClassCard(class, name string) (string, error) {
	target, err := os.Readlink(h.classPath(class) + "/" + name + "/device")
	if err != nil {
		return "", err
	}
	address, err := ParsePCIAddress(filepath.Base(target))
	if err != nil {
		return "", nil
	}
	return address, nil
}

// PCIDir returns the directory of the PCI device with this address, as
// ParsePCIAddress gives it. Trees without bus/, or with an incomplete one
// (recorded ones), are searched through the device links of class. The error wraps fs.ErrNotExist where there
// is no such device; that the directory of a link exists is not checked.
func (h Host) PCIDir(address, class string) (string, error) {
	devices := h.Sys + "/bus/pci/devices"
	dir, err := resolve(devices + "/" + address)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	// On a true sysfs a device that the bus does not know is gone, and the cost of
	// a card that left must not grow with the number of those that stay.
	there, lerr := exists(devices)
	if there && !h.Simulated || lerr != nil {
		return "", errors.Join(lerr, err)
	}
	names, lerr := h.ClassLinks(class)
	for _, name := range names {
		card, cerr := h.ClassCard(class, name)
		lerr = errors.Join(lerr, ownOnly(cerr))
		if cerr == nil && card == address {
			entry, err := resolve(h.classPath(class) + "/" + name)
			if err != nil {
				return "", err
			}
			return resolve(entry + "/device")
		}
	}
	return "", errors.Join(lerr, err)
}

// PhysFn returns the PCI address of the physical function of the virtual one at
// dir, "" where it is none. The only errors are those of [OwnTrouble].
func PhysFn(dir string) (string, error) {
	target, err := os.Readlink(dir + "/physfn")
	if err != nil {
		return "", ownOnly(err)
	}
	address, err := ParsePCIAddress(filepath.Base(target))
	if err != nil {
		return "", nil
	}
	return address, nil
}

// NUMANode returns the NUMA node of the PCI device at dir, -1 where there is
// none or none that can be read: the node is advice, not health. The only errors
// are those of [OwnTrouble].
func NUMANode(dir string) (int, error) {
	n, err := ReadAs(dir+"/numa_node", strconv.Atoi)
	if err != nil || n < 0 || n > maxNUMANode {
		return -1, ownOnly(err)
	}
	return n, nil
}

// maxNUMANode is far above the kernel's own limit (1024 nodes).
const maxNUMANode = 1<<16 - 1

// Inode returns the inode number of the directory at path. In sysfs a number is never used
// again, so it distinguishes a directory from a later one of the same name: since Linux
// 5.5, on 64-bit machines, the numbers have 64 bits and only count up (kernfs_id_ino in
// include/linux/kernfs.h).
func Inode(path string) (uint64, error) {
	st, err := lstat(path)
	if err != nil {
		return 0, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return 0, &fs.PathError{Op: "lstat", Path: path, Err: syscall.ENOTDIR}
	}
	return st.Ino, nil
}

func (h Host) classPath(class string) string { return h.Sys + "/class/" + class }

// resolve returns where the link at path leads, one step; path itself where it
// is no link. Links in sysfs are relative and lead to true directories, so the
// path can be cleaned without asking the kernel.
func resolve(path string) (string, error) {
	target, err := os.Readlink(path)
	switch {
	case errors.Is(err, syscall.EINVAL):
		return path, nil
	case err != nil:
		return "", err
	case filepath.IsAbs(target):
		return target, nil
	}
	return filepath.Join(filepath.Dir(path), target), nil
}
