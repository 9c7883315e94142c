package cdi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// During a surge upgrade, two daemons on a node write the same file. Whichever closes last removes it, no matter which
// of them wrote it.
func TestPeers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps func(t *testing.T, older, newer *cdi.Spec)
	}{
		{"the newer one writes last", func(t *testing.T, older, newer *cdi.Spec) {
			write(t, older, board...)
			write(t, newer, board[0])
			write(t, newer, board...)
		}},
		{"the older one writes last", func(t *testing.T, older, newer *cdi.Spec) {
			write(t, newer, board[0])
			write(t, older, board...)
			write(t, newer, board...) // not written: the file already has this content
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			older, newer := open(t, dir), open(t, dir)
			tc.steps(t, older, newer)
			expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
			before := identity(t, dir)
			must.Succeed(t, older.Close())
			expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
			write(t, newer, board...)
			if !os.SameFile(before, identity(t, dir)) {
				t.Error("the file was written again, want it unchanged")
			}
			must.Succeed(t, newer.Close())
			expect(t, dir, map[string]string{})
		})
	}
}

// The spec of another kind in the same directory is independent.
func TestOtherKind(t *testing.T) {
	dir := t.TempDir()
	ours := open(t, dir)
	other := must.Value(cdi.Open(dir, "b-com.com/fpga", "/dev"))(t)
	defer other.Close()
	write(t, ours, board...)
	write(t, other, board...)
	must.Succeed(t, other.Close())
	expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
	must.Succeed(t, ours.Close())
	expect(t, dir, map[string]string{})
}

// The last daemon exits and removes the lock file while a new one is waiting for the lock. The new one creates another
// lock file, which later daemons use.
func TestLockFileRemovedWhileWaiting(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lock)
	ending := must.Value(os.Create(path))(t)
	defer ending.Close()
	must.Succeed(t, syscall.Flock(int(ending.Fd()), syscall.LOCK_EX))
	opened := make(chan *cdi.Spec)
	go func() {
		defer close(opened)
		s, err := cdi.Open(dir, kind, "/dev")
		if err != nil {
			t.Error(err)
			return
		}
		opened <- s
	}()
	awaitWaiter(t, ending)
	must.Succeed(t, os.Remove(path), ending.Close())
	s := <-opened
	if s == nil {
		return
	}
	defer s.Close()
	expect(t, dir, map[string]string{lock: ""})
	write(t, s, board...)
	must.Succeed(t, open(t, dir).Close())
	expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
}

// awaitWaiter blocks until a process is waiting for a lock on the file. In /proc/locks, waiters are marked with an
// arrow, and the inode number is the last of three numbers.
func awaitWaiter(t *testing.T, file *os.File) {
	t.Helper()
	info := must.Value(file.Stat())(t)
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	for {
		locks := must.Value(os.ReadFile("/proc/locks"))(t)
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return
			}
		}
	}
}

// Several daemons open, write and close at the same time. The file exists as long as one of them has it open, and they
// leave nothing behind.
func TestManyPeers(t *testing.T) {
	dir := t.TempDir()
	descriptors := func() int {
		entries := must.Value(os.ReadDir("/proc/self/fd"))(t)
		return len(entries)
	}
	before := descriptors()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				s, err := cdi.Open(dir, kind, "/dev")
				if err != nil {
					t.Error(err)
					return
				}
				compare.NoError(t, "Write", s.Write(board))
				compare.NoError(t, "spec while a daemon runs", compare.ErrorOf(os.Stat(filepath.Join(dir, name))))
				compare.NoError(t, "Close", s.Close())
			}
		})
	}
	all.Wait()
	expect(t, dir, map[string]string{})
	compare.Equal(t, "open descriptors", before, descriptors())
}
