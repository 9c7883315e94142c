package sysfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// What CheckNode finds wrong.
var (
	ErrNodeMissing  = errors.New("no device node")
	ErrNodeMismatch = errors.New("not the node of this device")
)

// CheckNode checks that the node NAME in the device directory has the number want. devErr
// is the error of reading that number. CheckNode never opens the node. On a simulated host
// a regular file passes, with any number. The error wraps ErrNodeMissing or
// ErrNodeMismatch, or is devErr.
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
			return fmt.Errorf("%s: %w: is %s, want %s", path, ErrNodeMismatch, got, want)
		}
		return nil
	case syscall.S_IFREG:
		if h.Simulated {
			return nil
		}
	}
	return fmt.Errorf("%s: %w: mode %#o is no character device", path, ErrNodeMismatch, st.Mode)
}

// NodeNumber takes the kernel's dev_t of a node apart: 12 + 20 bits, the low ones of
// both where they were when each had 8 (include/linux/kdev_t.h, new_encode_dev,
// and its 64-bit form in glibc's sysmacros.h).
func NodeNumber(rdev uint64) DeviceNumber {
	return DeviceNumber{
		Major: uint32(rdev>>8&0xfff | rdev>>32&^0xfff),
		Minor: uint32(rdev&0xff | rdev>>12&^0xff),
	}
}

// CardOfNode returns the PCI address of the card that the character device NAME
// of the device directory belongs to, by its number (dev/char in sysfs). It
// looks at links only. False where the node is none, or leads to no PCI device.
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
