package cdi_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// TestForeignFile checks that whatever else is found at the spec's path gets replaced, and that nothing outside of the
// directory is modified.
func TestForeignFile(t *testing.T) {
	const untouched = "another program"
	for _, tc := range []struct {
		name string
		put  func(path, outside string) error
	}{
		{"nothing", func(string, string) error { return nil }},
		{"garbage", func(path, _ string) error { return os.WriteFile(path, []byte("\x00{{"), 0o644) }},
		{"another kind", func(path, _ string) error {
			return os.WriteFile(path, []byte(`{"cdiVersion":"0.5.0","kind":"a.b/c","devices":[]}`), 0o644)
		}},
		{"link out", func(path, outside string) error { return os.Symlink(outside, path) }},
		{"second name of a file outside", func(path, outside string) error { return os.Link(outside, path) }},
		{"pipe", func(path, _ string) error { return syscall.Mkfifo(path, 0o644) }},
		{"the same content, not readable for others", func(path, _ string) error {
			text, err := os.ReadFile("testdata/" + name)
			return errors.Join(err, os.WriteFile(path, text, 0o600))
		}},
		{"the same content and more", func(path, _ string) error {
			text, err := os.ReadFile("testdata/" + name)
			return errors.Join(err, os.WriteFile(path, append(text, '\n'), 0o644))
		}},
		{"link to the same content", func(path, outside string) error {
			text, err := os.ReadFile("testdata/" + name)
			return errors.Join(err, os.WriteFile(path+".copy", text, 0o644), os.Symlink(path+".copy", path))
		}},
	} {
		for _, act := range []string{"Write", "Write again", "Close", "Write nothing"} {
			t.Run(tc.name+", "+act, func(t *testing.T) {
				dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "file")
				path := filepath.Join(dir, name)
				must.Succeed(t, os.WriteFile(outside, []byte(untouched), 0o600))
				s := open(t, dir)
				if act != "Write" {
					write(t, s, board...)
					must.Succeed(t, os.Remove(path))
				}
				must.Succeed(t, tc.put(path, outside))
				writeBoard := func() error { return s.Write(board) }
				do, want := map[string]func() error{
					"Write": writeBoard, "Write again": writeBoard,
					"Close": s.Close, "Write nothing": func() error { return s.Write(nil) },
				}[act], map[string]string{lock: "", name: goldenFile(t, name)}
				must.Succeed(t, do())
				switch act {
				case "Close":
					want = map[string]string{}
				case "Write nothing":
					want = map[string]string{lock: ""}
				default:
					compare.Equal(t, "mode", 0o644, identity(t, dir).Mode())
				}
				if tc.name == "link to the same content" {
					want[name+".copy"] = goldenFile(t, name)
				}
				expect(t, dir, want)
				info, err := os.Stat(outside)
				text, _ := os.ReadFile(outside)
				if err != nil || string(text) != untouched || info.Mode() != 0o600 {
					t.Errorf("outside: %q, %v, %v", text, info.Mode(), err)
				}
			})
		}
	}
}

// A directory at the spec's path is left for the administrator to remove. CDI readers ignore it.
func TestDirectoryWithNameOfSpec(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	must.Succeed(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	want := filepath.Join(dir, name) + " not changed: found a directory, want a regular file or none"
	for range 2 {
		compare.Error(t, "Write", want, s.Write(board))
	}
	wantName(t, s, "3b:00.0", false)
	expect(t, dir, map[string]string{lock: "", name: "d---------"})
	write(t, s) // there should be no spec, and CDI readers don't find one
	compare.Error(t, "Write over a directory", "", s.Write(board))
	must.Succeed(t, os.Remove(filepath.Join(dir, name)))
	must.Succeed(t, s.Write(board))
	expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
	wantName(t, s, "3b:00.0", true)
}

// A daemon whose directory was replaced doesn't remove the files in the new one.
func TestDirectoryReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	older := open(t, dir)
	write(t, older, board[0])
	must.Succeed(t, os.RemoveAll(dir))
	newer := open(t, dir)
	write(t, newer, board...)
	must.Succeed(t, older.Close())
	expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
}

// The whole directory, including the lock file, can be removed and recreated empty.
func TestDirectoryRemoved(t *testing.T) {
	for _, tc := range []struct {
		name    string
		replace func(dir string) error
	}{
		{"removed", os.RemoveAll},
		{"emptied", func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)) }},
		{"moved away", func(dir string) error { return os.Rename(dir, dir+".old") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cdi")
			s, closing := open(t, dir), open(t, dir)
			write(t, s, board...)
			must.Succeed(t, tc.replace(dir))
			must.Succeed(t, closing.Close())
			must.Succeed(t, s.Write(board))
			expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
			// A newer daemon notices that this one is still running.
			newer := open(t, dir)
			must.Succeed(t, newer.Close())
			expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
		})
	}
}

func TestUnusable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		below string // a directory that doesn't exist
		make  func(dir string) error
		want  string
	}{
		{"a file", "", func(dir string) error { return os.WriteFile(dir, nil, 0o644) }, "not a directory"},
		{"below a file", "below", func(dir string) error { return os.WriteFile(filepath.Dir(dir), nil, 0o644) }, "not a directory"},
		{"link to nothing", "", func(dir string) error { return os.Symlink(dir+".none/cdi", dir) }, "file exists"},
		{"link as lock", "", func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), os.Symlink("none", filepath.Join(dir, lock)))
		}, "too many levels of symbolic links"},
		{"directory as lock", "", func(dir string) error { return os.MkdirAll(filepath.Join(dir, lock), 0o755) }, "is a directory"},
		{"name too long", strings.Repeat("x", 256), func(string) error { return nil }, "file name too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cdi", tc.below)
			must.Succeed(t, tc.make(dir))
			_, err := cdi.Open(dir, kind, "/dev")
			for _, want := range []string{"CDI directory " + dir, tc.want, "want a writable directory with free space"} {
				compare.Error(t, "error", want, err)
			}
		})
	}
}
