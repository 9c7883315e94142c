package sysfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// List says what os.ReadDir says, of a directory larger than its buffer too.
func TestList(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		name := filepath.Join(dir, fmt.Sprintf("entry-with-a-long-name-%d", i))
		var err error
		switch i % 3 {
		case 0:
			err = os.Mkdir(name, 0o755)
		case 1:
			err = os.WriteFile(name, nil, 0o644)
		case 2:
			err = os.Symlink(".", name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(dir string) []sysfs.Entry {
		var all []sysfs.Entry
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, sysfs.Entry{Name: e.Name(), Dir: e.IsDir()})
		}
		return all
	}
	for _, dir := range []string{dir, filepath.Join(dir, "entry-with-a-long-name-0"), "/sys/class", "/sys/bus"} {
		got, err := sysfs.List(dir)
		if diff := cmp.Diff(want(dir), got); diff != "" || err != nil {
			t.Errorf("%s: error %v, entries (-want +got):\n%s", dir, err, diff)
		}
	}
}

func TestListOfNone(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/file", nil, 0o644), os.Symlink(dir, dir+"/link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, "file": syscall.ENOTDIR, "link": syscall.ELOOP} {
		if got, err := sysfs.List(dir + "/" + name); !errors.Is(err, want) || got != nil {
			t.Errorf("%s: %v, error %v; want %v", name, got, err, want)
		}
	}
}

// Whatever a file system says, it is names or nothing.
func FuzzAppendEntries(f *testing.F) {
	record := func(length byte, kind byte, name string) []byte {
		return append(append(make([]byte, 16), length, 0, kind), name...)
	}
	f.Add(record(24, syscall.DT_DIR, "dir\x00\x00"))
	f.Add(record(24, syscall.DT_UNKNOWN, "tmp\x00\x00"))
	f.Add(append(record(21, syscall.DT_REG, ".\x00"), record(22, syscall.DT_REG, "..\x00")...))
	f.Add(record(0, 0, "x\x00"))
	f.Add(record(255, 4, "short"))
	f.Fuzz(func(t *testing.T, records []byte) {
		entries, _ := sysfs.AppendEntries(nil, "/", records)
		for _, e := range entries {
			if e.Name == "." || e.Name == ".." || len(e.Name) > len(records) {
				t.Errorf("entry %q", e.Name)
			}
		}
	})
}

// A file system that has no types in its directories is asked.
func TestListWithoutTypes(t *testing.T) {
	record := append(append(make([]byte, 16), 24, 0, syscall.DT_UNKNOWN), "tmp\x00\x00"...)
	want := []sysfs.Entry{{Name: "tmp", Dir: true}}
	got, err := sysfs.AppendEntries(nil, "/", record)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, entries (-want +got):\n%s", err, diff)
	}
}
