package sysfs_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// node unfolds the text of a board and returns its host.
func node(t testing.TB, text string) sysfs.Host {
	t.Helper()
	root := t.TempDir()
	must.Succeed(t, board.UnfoldText(root, []byte(text)))
	return sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		want          string
		err           string // part of the error, "" for none
	}{
		{"value", "0x0\n", "0x0", ""},
		{"no newline", "244:0", "244:0", ""},
		{"empty", "", "", ""},
		{"NULs behind", "0\n\x00\x00\x00", "0", ""},
		{"padded past a page", "0\n" + strings.Repeat("\x00", 5000) + "\n", "0", ""},
		{"NUL inside", "0\x001\n", "0\x001", ""},
		{"lines", "A=1\nB=2\n", "A=1\nB=2", ""},
		{"a page", strings.Repeat("a", 4096), strings.Repeat("a", 4096), ""},
		{"more than a page", strings.Repeat("a", 4097), "", "longer than 4096 bytes"},
		{"far more", strings.Repeat("a", 100000), "", "longer than 4096 bytes"},
	} {
		path := t.TempDir() + "/attr"
		must.Succeed(t, os.WriteFile(path, []byte(tt.content), 0o644))
		got, err := sysfs.Read(path)
		compare.Equal(t, tt.name, tt.want, got)
		compare.Outcome(t, tt.name, tt.err, err)
	}
}

func TestReadErrors(t *testing.T) {
	h := node(t, "-- sys/dir/ --\n-- sys/dangling -> nowhere --\n-- sys/circle -> circle --\n"+
		"-- sys/file --\n1\n-- sys/link -> file --\n-- sys/garbage --\nx\n")
	for _, tt := range []struct {
		name string
		want error
	}{
		{"absent", syscall.ENOENT},
		{"dir", syscall.EISDIR},
		{"dangling", syscall.ELOOP},
		{"circle", syscall.ELOOP},
		{"link", syscall.ELOOP},
		{"file/below", syscall.ENOTDIR},
		{"nul\x00name", syscall.EINVAL},
	} {
		path := h.Sys + "/" + tt.name
		_, err := sysfs.ReadAs(path, sysfs.ParseUint8)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want one that has the path %s and wraps %v", err, path, tt.want)
		}
	}
	compare.Error(t, "garbage", h.Sys+`/garbage: found "x", want 0 to 255 in decimal`, compare.ErrorOf(sysfs.ReadAs(h.Sys+"/garbage", sysfs.ParseUint8)))
}

const links = `
-- sys/class/fpga_region/region0 -> ../../devices/pci0000:00/0000:3b:00.0/fpga_region/region0 --
-- sys/class/fpga_region/region1 -> ../../devices/pci0000:00/0000:3b:00.0/fpga_region/region0/fme/fpga_region/region1 --
-- sys/class/fpga_region/region2 -> nowhere --
-- sys/class/fpga_region/region3 -> region3 --
-- sys/class/fpga_region/stray/device -> ../0000:3c:00.0 --
-- sys/class/fpga_region/file --
-- sys/devices/pci0000:00/0000:3b:00.0/fpga_region/region0/device -> ../../../0000:3b:00.0 --
-- sys/devices/pci0000:00/0000:3b:00.0/fpga_region/region0/fme/fpga_region/region1/device -> ../../../fme --
`

func TestClass(t *testing.T) {
	h := node(t, links)
	compare.Values(t, "links", []string{"region0", "region1", "region2", "region3"}, must.Value(h.ClassLinks("fpga_region"))(t))
	compare.Empty(t, "links of an absent class", must.Value(h.ClassLinks("fpga"))(t))
	compare.Error(t, "class that is a file", "", compare.ErrorOf(h.ClassLinks("fpga_region/file")))
	for _, tt := range []struct {
		name string
		want string
		err  error
	}{
		{"region0", "0000:3b:00.0", nil},
		{"region1", "", nil},
		{"region2", "", fs.ErrNotExist},
		{"region3", "", syscall.ELOOP},
	} {
		got, err := h.ClassCard("fpga_region", tt.name)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: card %q, error %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestPCIDir(t *testing.T) {
	const dir = "/devices/pci0000:00/0000:3b:00.0"
	for _, tt := range []struct {
		name, board string
		want        string
		err         error
	}{
		{"on the bus", "-- sys/bus/pci/devices/0000:3b:00.0 -> ../../.." + dir + " --\n", dir, nil},
		{"no bus", "-- sys/ --\n", "", fs.ErrNotExist},
		{"bus without it", links + "-- sys/bus/pci/devices/ --\n", "", fs.ErrNotExist},
		{"directory on the bus", "-- sys/bus/pci/devices/0000:3b:00.0/ --\n", "/bus/pci/devices/0000:3b:00.0", nil},
		{"bus is a file", links + "-- sys/bus --\n", "", syscall.ENOTDIR},
	} {
		h := node(t, tt.board)
		got, err := h.PCIDir("0000:3b:00.0")
		if strings.TrimPrefix(got, h.Sys) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: directory %q, error %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestPCIAttributes(t *testing.T) {
	for _, tt := range []struct {
		name, board string
		numa        int
		physfn      string
	}{
		{"none", "-- sys/ --\n", -1, ""},
		{"all", "-- sys/numa_node --\n1\n-- sys/physfn -> ../0000:AF:00.0 --\n", 1, "0000:af:00.0"},
		{"no NUMA node", "-- sys/numa_node --\n-1\n", -1, ""},
		{"garbage", "-- sys/numa_node --\n1x\n-- sys/physfn -> ../driver --\n", -1, ""},
		{"out of range", "-- sys/numa_node --\n65536\n-- sys/physfn --\n", -1, ""},
		{"overflow", "-- sys/numa_node --\n99999999999999999999\n-- sys/physfn/ --\n", -1, ""},
	} {
		h := node(t, tt.board)
		compare.Equal(t, tt.name+": NUMA node", tt.numa, must.Value(sysfs.NUMANode(h.Sys))(t))
		compare.Equal(t, tt.name+": physfn", tt.physfn, must.Value(sysfs.PhysFn(h.Sys))(t))
	}
}

func TestInode(t *testing.T) {
	h := node(t, "-- sys/a/ --\n-- sys/b/ --\n-- sys/file --\n-- sys/link -> a --\n")
	a := must.Value(sysfs.Inode(h.Sys + "/a"))(t)
	if b, err := sysfs.Inode(h.Sys + "/b"); err != nil || a == b || b == 0 {
		t.Errorf("inodes %d and %d, error %v", a, b, err)
	}
	for _, name := range []string{"file", "link"} {
		compare.ErrorIs(t, name, syscall.ENOTDIR, compare.ErrorOf(sysfs.Inode(h.Sys+"/"+name)))
	}
	if _, err := sysfs.Inode(h.Sys + "/none"); !sysfs.Gone(err) {
		t.Errorf("error %v, want ENOENT", err)
	}
}

func TestBound(t *testing.T) {
	for _, tt := range []struct {
		name, board string
		want        bool
	}{
		{"nothing", "-- sys/ --\n", false},
		{"driver", "-- sys/driver -> nowhere --\n", true},
		{"driver of itself", "-- sys/driver -> . --\n-- sys/uevent --\n", true},
		{"uevent", "-- sys/uevent --\nMAJOR=1\nDRIVER=dfl-port\n", true},
		{"uevent without driver", "-- sys/uevent --\nMAJOR=1\nOLD_DRIVER=x\n-- sys/id --\n0\n", false},
		{"uevent unreadable", "-- sys/uevent/ --\n-- sys/id --\n0\n", false},
		{"own attributes", "-- sys/id --\n0\n", true},
		{"other attributes", "-- sys/dev --\n245:0\n", false},
	} {
		compare.Equal(t, tt.name, tt.want, must.Value(sysfs.Bound(node(t, tt.board).Sys, "afu_id", "id"))(t))
	}
}

func TestVirtFn(t *testing.T) {
	const board = `-- sys/01:00.0/virtfn0 -> ../01:00.1 --
-- sys/01:00.0/virtfn1 -> ../01:00.2 --
-- sys/01:00.0/virtfn3 -> ../01:00.4 --
-- sys/01:00.1/physfn -> ../01:00.0 --
-- sys/01:00.2/physfn -> ../01:00.0 --
-- sys/01:00.4/physfn -> ../01:00.0 --
`
	h := node(t, board)
	for name, want := range map[string]int{"01:00.0": -1, "01:00.1": 0, "01:00.2": 1, "01:00.4": -1, "01:00.5": -1} {
		compare.Equal(t, name, want, must.Value(sysfs.VirtFn(h.Sys+"/"+name))(t))
	}
}

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/file"
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for _, test := range []struct {
		path, err string // part of the error, "" if there is none
		missing   bool
	}{
		{dir, "", false},
		{"", `"": found nothing, want a directory`, true},
		{dir + "/none", `/none": found nothing, want a directory`, true},
		{file, `/file": found a file of mode -rw-------, want a directory`, false},
	} {
		err := sysfs.CheckDir(test.path)
		if errors.Is(err, fs.ErrNotExist) != test.missing || (err == nil) != (test.err == "") ||
			err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("CheckDir(%q) = %v, want %q", test.path, err, test.err)
		}
	}
}
