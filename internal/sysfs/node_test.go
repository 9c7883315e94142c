package sysfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// check calls CheckNode with the device number in the file dev.
func check(h sysfs.Host, name, dev string) error {
	number, err := sysfs.ReadAs(dev, sysfs.ParseDeviceNumber)
	return h.CheckNode(name, number, err)
}

func TestCheckNode(t *testing.T) {
	h := node(t, "-- sys/dev --\n1:3\n-- dev/file --\n-- dev/dir/ --\n-- dev/link -> file --\n-- dev/circle -> circle --\n")
	for _, tt := range []struct {
		name string
		want error
	}{
		{"file", nil},
		{"dir", sysfs.ErrNodeMismatch},
		{"link", sysfs.ErrNodeMismatch},
		{"circle", sysfs.ErrNodeMismatch},
		{"none", sysfs.ErrNodeMissing},
		{"file/below", sysfs.ErrNodeMissing},
	} {
		compare.ErrorIs(t, tt.name+": check", tt.want, check(h, tt.name, h.Sys+"/dev"))
	}
	h.Simulated = false
	compare.ErrorIs(t, "regular file on a true host", sysfs.ErrNodeMismatch, check(h, "file", h.Sys+"/dev"))
}

// TestTrueNode uses a node that every machine has: /dev/null is 1:3.
func TestTrueNode(t *testing.T) {
	st, err := os.Lstat("/dev/null")
	if err != nil || st.Mode()&fs.ModeCharDevice == 0 {
		t.Skip("no /dev/null here")
	}
	h := node(t, "-- sys/null --\n1:3\n-- sys/zero --\n1:5\n-- sys/garbage --\n1\n-- sys/dev/char/1:3 -> "+
		"../../devices/pci0000:00/0000:3b:00.0/mem/null --\n")
	h.Dev = "/dev"
	must.Succeed(t, check(h, "null", h.Sys+"/null"))
	compare.ErrorIs(t, "check", sysfs.ErrNodeMismatch, check(h, "null", h.Sys+"/zero"))
	for _, dev := range []string{"garbage", "none"} {
		err := check(h, "null", h.Sys+"/"+dev)
		if err == nil || errors.Is(err, sysfs.ErrNodeMismatch) || errors.Is(err, sysfs.ErrNodeMissing) {
			t.Errorf("%s: error %v, want the error of reading %[1]s", dev, err)
		}
	}
	if card, ok := h.CardOfNode("null"); card != "0000:3b:00.0" || !ok {
		t.Errorf("card %q, %v", card, ok)
	}
	for _, name := range []string{"zero", "none", "."} {
		if card, ok := h.CardOfNode(name); card != "" || ok {
			t.Errorf("%s: card %q, %v", name, card, ok)
		}
	}
}

// TestDeviceNumbers makes nodes with the least and greatest values of both numbers.
func TestDeviceNumbers(t *testing.T) {
	for _, n := range []sysfs.DeviceNumber{{1, 0}, {245, 255}, {245, 256}, {511, 1<<20 - 1}, {4095, 0}, {256, 65535}} {
		h := node(t, fmt.Sprintf("-- dev/ --\n-- sys/dev --\n%d:%d\n", n.Major, n.Minor))
		// mknod takes the kernel's 32-bit form: new_encode_dev.
		rdev := int(n.Minor&0xff | n.Major<<8 | n.Minor&^0xff<<12)
		if err := syscall.Mknod(h.Dev+"/node", syscall.S_IFCHR|0o600, rdev); err != nil {
			t.Skipf("a device node cannot be made here: %v", err)
		}
		must.Succeed(t, check(h, "node", h.Sys+"/dev"))
	}
}

func TestIsSysfs(t *testing.T) {
	compare.Equal(t, "a directory", false, must.Value(sysfs.IsSysfs(t.TempDir()))(t))
	compare.ErrorIs(t, "IsSysfs", fs.ErrNotExist, compare.ErrorOf(sysfs.IsSysfs(t.TempDir()+"/none")))
	if _, err := os.Stat("/sys/class/mem/null/uevent"); err != nil {
		t.Skip("no sysfs here")
	}
	compare.Equal(t, "/sys", true, must.Value(sysfs.IsSysfs("/sys"))(t))
}
