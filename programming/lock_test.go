package programming_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/programming"
)

// lockIn is the variable with the directory in which the test binary holds a lock, as a second process.
const lockIn = "PROGRAMMING_TEST_LOCK_IN"

// card is the address of the FME that tests lock.
const card = "0000:01:00.0"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockIn); dir != "" {
		if _, err := programming.AcquireLock(context.Background(), dir, card); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

func TestLock(t *testing.T) {
	dir := filepath.Join(ownDir(t), "run", "accelerator-fpga")
	var holders, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			lock, err := programming.AcquireLock(t.Context(), dir, card)
			if err != nil {
				t.Error(err)
				return
			}
			if n := holders.Add(1); n > 1 {
				most.Store(n)
			}
			time.Sleep(time.Millisecond)
			holders.Add(-1)
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most.Load() > 0 {
		t.Errorf("%d at once held the lock", most.Load())
	}
	info, err := os.Stat(filepath.Join(dir, "0000:01:00.0.lock"))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v, want a file that others cannot open, and so not lock", info, err)
	}
}

func TestLockWaits(t *testing.T) {
	dir := filepath.Join(ownDir(t), "run")
	synctest.Test(t, func(t *testing.T) {
		held, err := programming.AcquireLock(t.Context(), dir, card)
		if err != nil {
			t.Fatal(err)
		}
		other, err := programming.AcquireLock(t.Context(), dir, "0000:02:00.0")
		if err != nil {
			t.Fatalf("another FME: %v", err)
		}
		other.Release()

		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = programming.AcquireLock(ctx, dir, card)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "0000:01:00.0.lock: held by another process") {
			t.Errorf("%v, want that it is held", err)
		}
		if waited := time.Since(begin); waited != time.Minute {
			t.Errorf("waited %s, want 1m", waited)
		}

		time.AfterFunc(10*time.Second, func() { held.Release() })
		lock, err := programming.AcquireLock(t.Context(), dir, card)
		if err != nil {
			t.Fatal(err)
		}
		lock.Release()
		if waited := time.Since(begin); waited > 70*time.Second+20*time.Millisecond {
			t.Errorf("got it after %s, want 70s", waited)
		}
	})
}

// The lock ends when its process is killed.
func TestLockOfKilled(t *testing.T) {
	dir := filepath.Join(ownDir(t), "run")
	holder := exec.CommandContext(t.Context(), os.Args[0])
	holder.Env = append(os.Environ(), lockIn+"="+dir)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("%q, %v", line, err)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := programming.AcquireLock(now, dir, card); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want that it is held", err)
	}
	holder.Process.Kill()
	holder.Wait()
	lock, err := programming.AcquireLock(now, dir, card)
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
}

func TestLockRefused(t *testing.T) {
	dir := ownDir(t)
	for _, name := range []string{"", "../x", "a/b", ".", "..", "\x00", "dfl-fme.0"} {
		if _, err := programming.AcquireLock(t.Context(), dir, name); err == nil || !strings.Contains(err.Error(), "want a PCI address DDDD:BB:DD.F") {
			t.Errorf("name %q: %v", name, err)
		}
	}
	victim := write(t, filepath.Join(dir, "victim"), nil)
	if err := os.Symlink(victim, filepath.Join(dir, "0000:01:00.0.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := programming.AcquireLock(t.Context(), dir, card); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("a link: %v", err)
	}
	for _, mode := range []fs.FileMode{0o775, 0o777 | fs.ModeSticky} {
		chmod(t, dir, mode)
		if _, err := programming.AcquireLock(t.Context(), dir, "0000:02:00.0"); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("mode %s: %v", mode, err)
		}
	}
}

// A lock file that other users can open gets mode 0600, because they could hold the lock.
func TestLockFileOfOthers(t *testing.T) {
	dir := ownDir(t)
	path := write(t, filepath.Join(dir, card+".lock"), nil)
	chmod(t, path, 0o644)
	lock, err := programming.AcquireLock(t.Context(), dir, card)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

// The lock on a removed file is not used, because another process can lock a new file at its path.
func TestLockFileRemoved(t *testing.T) {
	dir := ownDir(t)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	var got atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				lock, err := programming.AcquireLock(now, dir, card)
				if err != nil {
					continue
				}
				got.Add(1)
				if other, err := programming.AcquireLock(now, dir, card); err == nil {
					other.Release()
					t.Error("two at once hold the lock")
				}
				os.Remove(filepath.Join(dir, card+".lock"))
				lock.Release()
			}
		})
	}
	all.Wait()
	if got.Load() == 0 {
		t.Error("no process got the lock")
	}
}
