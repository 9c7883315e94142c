package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// ClassLinks returns the sorted names of the links in a class directory. It ignores other files, because the kernel
// doesn't put any there. If the class doesn't exist, it returns nil.
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

// ClassCard returns the PCI address in the target of a class entry's device link, or "" if the target isn't a PCI
// device. It doesn't open any files, because that could block on a dead card.
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

// PCIDir returns the directory of the PCI device with this address, which must be in the format that ParsePCIAddress
// returns. The error wraps fs.ErrNotExist if there is no such device. PCIDir doesn't check whether the directory that a
// link points to exists.
func (h Host) PCIDir(address string) (string, error) {
	return resolve(h.Sys + "/bus/pci/devices/" + address)
}

// PhysFn returns the PCI address of the physical function that the virtual function at dir belongs to, or "" if the
// device isn't a virtual function. It only returns errors for which [IsShortage] reports true.
func PhysFn(dir string) (string, error) {
	target, err := os.Readlink(dir + "/physfn")
	if err != nil {
		return "", onlyShortage(err)
	}
	address, err := ParsePCIAddress(filepath.Base(target))
	if err != nil {
		return "", nil
	}
	return address, nil
}

// VirtFn returns the index of the virtual function at dir, which is the N in its physical function's virtfnN link, or
// -1 if there is no such link. It only returns errors for which [IsShortage] reports true.
func VirtFn(dir string) (int, error) {
	for n := 0; ; n++ {
		target, err := os.Readlink(dir + "/physfn/virtfn" + strconv.Itoa(n))
		if err != nil {
			return -1, onlyShortage(err)
		}
		if filepath.Base(target) == filepath.Base(dir) {
			return n, nil
		}
	}
}

// NUMANode returns the NUMA node of the PCI device at dir. It returns -1 if the device isn't on a node or the number
// can't be read, neither of which says anything about its health. It only returns errors for which [IsShortage] reports
// true.
func NUMANode(dir string) (int, error) {
	n, err := ReadAs(dir+"/numa_node", strconv.Atoi)
	if err != nil || n < 0 || n > maxNUMANode {
		return -1, onlyShortage(err)
	}
	return n, nil
}

// maxNUMANode is far above the kernel's own limit (1024 nodes).
const maxNUMANode = 1<<16 - 1

// Inode returns the inode number of the directory at path. sysfs never reuses inode numbers, so the number
// distinguishes the directory from a later one with the same name. On 64-bit machines, since Linux 5.5, the numbers
// have 64 bits and only count up (kernfs_id_ino in include/linux/kernfs.h).
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

// resolve returns the target of the link at path, or path itself if it isn't a link. It only resolves a single link.
// Links in sysfs are relative and never point to another link, so the path can be cleaned without accessing the file
// system.
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
