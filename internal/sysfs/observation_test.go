package sysfs_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// TestUnchanged makes an observation of a tree, changes the tree, and repeats the observation.
func TestUnchanged(t *testing.T) {
	value := func(of string) func(dir string) sysfs.Observation {
		return func(dir string) sysfs.Observation { return sysfs.ObserveValue(dir+"/file", of) }
	}
	prefix := func(dir string) sysfs.Observation { return sysfs.ObservePrefix(dir+"/file", []byte{0x86, 0x80}) }
	there := func(dir string) sysfs.Observation { return sysfs.ObserveExists(dir + "/entry") }
	entry := func(dir string) sysfs.Observation { return sysfs.ObserveEntry(dir + "/entry") }
	write := func(content string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(dir+"/file", []byte(content), 0o600) }
	}
	remove := func(name string) func(dir string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	link := func(target string) func(dir string) error {
		return func(dir string) error { return os.Symlink(target, dir+"/entry") }
	}
	replace := func(dir string) error { // the new entry is made first, so that its inode differs
		if err := os.Symlink("target", dir+"/new"); err != nil {
			return err
		}
		return os.Rename(dir+"/new", dir+"/entry")
	}
	long := strings.Repeat("x", 1023)
	for _, tt := range []struct {
		name    string
		before  func(dir string) error
		observe func(dir string) sysfs.Observation
		after   func(dir string) error
		want    bool
	}{
		{"value", write("0x0\n"), value("0x0"), nil, true},
		{"value, written again", write("0x0\n"), value("0x0"), write("0x0\n"), true},
		{"value, padded", write("0x0\n\x00\x00\n"), value("0x0"), nil, true},
		{"empty value", write(""), value(""), nil, true},
		{"another value", write("0x0\n"), value("0x0"), write("0x1\n"), false},
		{"value grows", write("0x0\n"), value("0x0"), write("0x00\n"), false},
		{"value with a line more", write("0x0\n"), value("0x0"), write("0x0\n0x0\n"), false},
		{"value is gone", write("0x0\n"), value("0x0"), remove("file"), false},
		{"value is a directory", func(dir string) error { return os.Mkdir(dir+"/file", 0o700) }, value(""), nil, false},
		{"value is a link", func(dir string) error { return os.Symlink("file", dir+"/file") }, value(""), nil, false},
		{"longest value", write(long), value(long), nil, true},
		{"value that is too long", write(long + "x"), value(long + "x"), nil, false},
		{"value that has become too long", write(long), value(long), write(long + "\x00"), false},

		{"first bytes", write("\x86\x80\xc4\x09"), prefix, nil, true},
		{"first bytes, others change", write("\x86\x80\xc4\x09"), prefix, write("\x86\x80\xff\xff"), true},
		{"first bytes change", write("\x86\x80\xc4\x09"), prefix, write("\xff\xff\xff\xff"), false},
		{"first bytes are fewer", write("\x86\x80\xc4\x09"), prefix, write("\x86"), false},
		{"first bytes are gone", write("\x86\x80\xc4\x09"), prefix, remove("file"), false},

		{"entry", link("target"), entry, nil, true},
		{"no entry", nil, entry, nil, true},
		{"entry appears", nil, entry, link("target"), false},
		{"entry is gone", link("target"), entry, remove("entry"), false},
		{"entry is another one", link("target"), entry, replace, false},
		{"exists", link("target"), there, nil, true},
		{"exists, another one", link("target"), there, replace, true},
		{"exists no longer", link("target"), there, remove("entry"), false},
		{"entry of another type", write(""), func(dir string) sysfs.Observation { return sysfs.ObserveEntry(dir + "/file") },
			func(dir string) error { return os.Chmod(dir+"/file", 0o640) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.before != nil {
				must.Succeed(t, tt.before(dir))
			}
			first := sysfs.ObserveEntry(dir) // holds, so the next observation is also compared
			all := []sysfs.Observation{first, tt.observe(dir)}
			if tt.after != nil {
				must.Succeed(t, tt.after(dir))
			}
			compare.Equal(t, "unchanged", tt.want, sysfs.Unchanged(all))
		})
	}
	if !sysfs.Unchanged(nil) {
		t.Error("no observations: unchanged false, want true")
	}
}

// TestUnchangedStops checks that Unchanged reads nothing after the first difference: reading the
// FIFO would block forever.
func TestUnchangedStops(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, syscall.Mkfifo(dir+"/hangs", 0o600))
	if sysfs.Unchanged([]sysfs.Observation{sysfs.ObserveValue(dir+"/none", ""), sysfs.ObserveValue(dir+"/hangs", "")}) {
		t.Error("unchanged, want changed: there is no file")
	}
}
