package cdi_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/server/cdi"
)

// Two instances on one node, as in a surge upgrade, tell the same story with one
// file. It goes with the last of them, whoever wrote it.
func TestTwins(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps func(t *testing.T, old, young *cdi.Spec)
	}{
		{"the young one writes last", func(t *testing.T, old, young *cdi.Spec) {
			write(t, old, board...)
			write(t, young, board[0])
			write(t, young, board...)
		}},
		{"the old one writes last", func(t *testing.T, old, young *cdi.Spec) {
			write(t, young, board[0])
			write(t, old, board...)
			write(t, young, board...) // as the file says: not written
		}},
		{"the old one puts it back", func(t *testing.T, old, young *cdi.Spec) {
			write(t, old, board...)
			write(t, young, board...)
			if err := old.Ensure(); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			old, young := open(t, dir), open(t, dir)
			tc.steps(t, old, young)
			expect(t, dir, map[string]string{lock: "", name: golden(t)})
			before := identity(t, dir)
			if err := old.Close(); err != nil {
				t.Error(err)
			}
			expect(t, dir, map[string]string{lock: "", name: golden(t)})
			if err := young.Ensure(); err != nil {
				t.Error(err)
			}
			if !os.SameFile(before, identity(t, dir)) {
				t.Error("written again without need")
			}
			if err := young.Close(); err != nil {
				t.Error(err)
			}
			expect(t, dir, map[string]string{})
		})
	}
}

// One that is behind overwrites the file: the other one's Ensure mends it, and so
// does a Write of what it wrote before.
func TestTwinBehind(t *testing.T) {
	dir := t.TempDir()
	ahead, behind := open(t, dir), open(t, dir)
	for _, mend := range []func() error{ahead.Ensure, func() error { return ahead.Write(board) }} {
		write(t, ahead, board...)
		write(t, behind, board[0])
		if err := mend(); err != nil {
			t.Error(err)
		}
		expect(t, dir, map[string]string{lock: "", name: golden(t)})
	}
}

// Another kind in the same directory is no twin.
func TestOtherKind(t *testing.T) {
	dir := t.TempDir()
	ours := open(t, dir)
	other, err := cdi.Open(dir, "b-com.com/fpga", "/dev")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	write(t, ours, board...)
	write(t, other, board...)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, map[string]string{lock: "", name: golden(t)})
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, map[string]string{})
}

// The last one leaves, and takes the lock file with it, while a new one waits for
// that lock: it takes another one, which those who come later see.
func TestLockGoesWhileWaited(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lock)
	leaving, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer leaving.Close()
	if err := syscall.Flock(int(leaving.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	came := make(chan *cdi.Spec)
	go func() {
		defer close(came)
		s, err := cdi.Open(dir, kind, "/dev")
		if err != nil {
			t.Error(err)
			return
		}
		came <- s
	}()
	awaitWaiter(t, leaving)
	if err := errors.Join(os.Remove(path), leaving.Close()); err != nil {
		t.Fatal(err)
	}
	s := <-came
	if s == nil {
		return
	}
	defer s.Close()
	expect(t, dir, map[string]string{lock: ""})
	write(t, s, board...)
	if err := open(t, dir).Close(); err != nil {
		t.Error(err)
	}
	expect(t, dir, map[string]string{lock: "", name: golden(t)})
}

// awaitWaiter waits until somebody waits for a lock on the file. In the kernel's
// list such a line has an arrow; an inode is the last of three numbers.
func awaitWaiter(t *testing.T, file *os.File) {
	t.Helper()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	for deadline := time.Now().Add(900 * time.Millisecond); time.Now().Before(deadline); {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return
			}
		}
	}
	t.Fatal("nobody waits for the lock")
}

// Many come, write and leave at once: nobody loses a file while it is there, and
// nothing is left of them.
func TestManyTwins(t *testing.T) {
	dir := t.TempDir()
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := descriptors()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
				s, err := cdi.Open(dir, kind, "/dev")
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Write(board); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Errorf("while one lives: %v", err)
				}
				if err := errors.Join(s.Ensure(), s.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	expect(t, dir, map[string]string{})
	if after := descriptors(); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}
