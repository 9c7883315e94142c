package cdi_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/server/cdi"
)

// asNobody takes the right to write to the directory away, from root too: root
// becomes nobody until it is mended. The whole process does.
func asNobody(t *testing.T, dir string) (mend func()) {
	t.Helper()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	uid := os.Geteuid()
	if uid == 0 {
		if err := syscall.Setreuid(-1, 65534); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := errors.Join(syscall.Setreuid(-1, uid), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// noDescriptor lets no file be opened.
func noDescriptor(t *testing.T, _ string) (mend func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	mend := asNobody(t, dir)
	_, err := cdi.Open(dir, kind, "/dev")
	mend()
	for _, want := range []string{"CDI directory " + dir, "permission denied", "it must be a directory with room that the daemon may write to"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// The disk turns bad in the middle of a life: the old file stays, the error says
// why, and once it is mended Ensure writes what could not be written.
func TestDiskTurnsBad(t *testing.T) {
	for _, tc := range []struct {
		name    string
		bad     func(t *testing.T, dir string) (mend func())
		errno   error
		removes bool // can the file still be removed?
	}{
		{"not allowed", asNobody, fs.ErrPermission, false},
		{"no descriptor more", noDescriptor, syscall.EMFILE, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			write(t, s, board[0], board[2])
			before := identity(t, dir)
			mend := tc.bad(t, dir)
			err, again := s.Write(board), s.Ensure()
			mend()
			for _, err := range []error{err, again} {
				if !errors.Is(err, tc.errno) || !strings.Contains(err.Error(), filepath.Join(dir, name)+" stays as it was") {
					t.Errorf("error %v, want %v", err, tc.errno)
				}
			}
			if !os.SameFile(before, identity(t, dir)) {
				t.Error("the old file has not stayed")
			}
			if _, ok := s.Name("3b:00.0"); ok {
				t.Error("a name that the file does not have")
			}
			if _, ok := s.Name("5e:00.0"); !ok {
				t.Error("no name though the file has it")
			}
			if err := s.Ensure(); err != nil {
				t.Error(err)
			}
			expect(t, dir, map[string]string{lock: "", name: golden(t)})

			mend = tc.bad(t, dir)
			err = s.Write(nil)
			mend()
			if tc.removes != (err == nil) {
				t.Errorf("removing: %v", err)
			}
		})
	}
}

// The same on a file system of its own, full and then read-only.
func TestFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); errors.Is(err, syscall.EPERM) {
		t.Skip("not allowed to mount a file system; TestDiskTurnsBad needs none")
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	s, err := cdi.Open(dir, kind, "/dev")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write(t, s, board[0], board[2])
	before := identity(t, dir)
	check := func(want error) {
		t.Helper()
		for _, err := range []error{s.Write(board), s.Ensure()} {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), filepath.Join(dir, name)+" stays as it was") {
				t.Errorf("error %v, want %v", err, want)
			}
		}
		if !os.SameFile(before, identity(t, dir)) {
			t.Error("the old file has not stayed")
		}
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 16<<10), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("not full: %v", err)
	}
	check(syscall.ENOSPC)
	if err := errors.Join(os.Remove(ballast), syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	check(syscall.EROFS)
	if err := s.Write([]cdi.Device{board[0]}); err != nil { // it is there, nothing need be written
		t.Error(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	write(t, s, board...)
	expect(t, dir, map[string]string{lock: "", name: golden(t)})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, map[string]string{})
}
