package sysfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Errors from [Host.CheckNode].
var (
	ErrNodeMissing  = errors.New("no device node")
	ErrNodeMismatch = errors.New("not the node of this device")
)

// CheckNode returns an error unless the named file in the device directory is a device node with the wanted number.
// devErr is the error, if any, from reading the wanted number. On a simulated host, a regular file is accepted for any
// number. CheckNode never opens the file. It returns devErr, or an error that wraps ErrNodeMissing or ErrNodeMismatch.
func (h Host) CheckNode(name string, want DeviceNumber, devErr error) error {
	path := h.Dev + "/" + name
	st, err := lstat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNodeMissing, err)
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFCHR:
		if devErr != nil {
			return devErr
		}
		if got := NodeNumber(uint64(st.Rdev)); got != want {
			return fmt.Errorf("%s: found device number %s, want %s: %w", path, got, want, ErrNodeMismatch)
		}
		return nil
	case syscall.S_IFREG:
		if h.Simulated {
			return nil
		}
	}
	return fmt.Errorf("%s: found mode %#o, want a character device: %w", path, st.Mode, ErrNodeMismatch)
}

// NodeNumber decodes a node's st_rdev. The major number has 12 bits and the minor number has 20. The low 8 bits of each
// are in the same place as when the numbers only had 8 bits (new_encode_dev in include/linux/kdev_t.h, and the 64-bit
// form in glibc's sysmacros.h).
func NodeNumber(rdev uint64) DeviceNumber {
	return DeviceNumber{
		Major: uint32(rdev>>8&0xfff | rdev>>32&^0xfff),
		Minor: uint32(rdev&0xff | rdev>>12&^0xff),
	}
}

// CardOfNode returns the PCI address of the card that owns the named character device in the device directory. It looks
// up the device number in sysfs (dev/char) and only reads links. It returns false if there is no such device node, or
// if it doesn't belong to a PCI device.
func (h Host) CardOfNode(name string) (string, bool) {
	st, err := lstat(h.Dev + "/" + name)
	if err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFCHR {
		return "", false
	}
	n := NodeNumber(uint64(st.Rdev))
	target, err := os.Readlink(h.Sys + "/dev/char/" + n.String())
	if err != nil {
		return "", false
	}
	address := PCIAddressOf(target)
	return address, address != ""
}
