package owner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// Even if the disk doesn't have room for data, a device plugin can start for the first time, because its lock files are
// empty. If there is no room for more files, it can't start, and says so.
func TestFirstStartOnAFullDisk(t *testing.T) {
	for name, options := range map[string]string{"data": "size=64k", "files": "nr_inodes=2"} {
		t.Run(name, func(t *testing.T) {
			parent := privatedirtest.Dir(t)
			mount(t, parent, options)
			dir := filepath.Join(parent, "state")
			must.Succeed(t, os.Mkdir(dir, 0o700))
			if name == "data" {
				must.Succeed(t, os.WriteFile(filepath.Join(parent, "fill"), make([]byte, 64<<10), 0o600))
				if err := os.WriteFile(filepath.Join(parent, "more"), []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("error %v, want %v", err, syscall.ENOSPC)
				}
			}
			onNodeWith(t, dir, func(n *node) {
				plugin := n.start(control.DevicePlugin)
				if name == "data" {
					plugin.takes(0)
					return
				}
				if plugin.owns(time.Second) || plugin.WaitsFor() != owner.ForStateDir || !errors.Is(plugin.Waiting(), syscall.ENOSPC) ||
					!strings.HasPrefix(plugin.Waiting().Error(), "--state-dir: "+dir+"/owner.lock: ") {
					n.Errorf("waits for %s, %v, want owner.lock and %v", plugin.WaitsFor(), plugin.Waiting(), syscall.ENOSPC)
				}
				must.Succeed(n, syscall.Mount("", parent, "", syscall.MS_REMOUNT, "nr_inodes=10"))
				plugin.takes(time.Second)
			})
		})
	}
}

// A real file system hangs, both when a daemon starts and while one is running.
func TestHangingFUSE(t *testing.T) {
	dir := privatedirtest.Dir(t)
	before := owner.New(dir, control.DRA, zap.NewNop())
	must.Succeed(t, before.Take(t.Context(), func() owner.Naming { return 1 }))
	check := before.LockCheck()
	release := privatedirtest.Hang(t, dir)
	for range 2 {
		compare.Error(t, "lock check", "the file system hangs", check())
	}
	// within fails if a call takes longer than this, or twice as long to allow for slow machines.
	within := func(limit time.Duration, call string, f func()) {
		t.Helper()
		began := time.Now()
		if f(); time.Since(began) > 2*limit {
			t.Errorf("%s took %s, want at most %s", call, time.Since(began), limit)
		}
	}
	goroutines := runtime.NumGoroutine()
	within(time.Second, "Rename", func() {
		for range 20 {
			if before.Rename(t.Context(), 2) || before.Naming() != 1 {
				t.Error("the naming is changed although the file system hangs")
			}
		}
	})
	if err := before.Waiting(); before.WaitsFor() != owner.ForSettings || err == nil || !strings.Contains(err.Error(), "--state-dir: "+dir+": no answer") {
		t.Errorf("waits for %q, %v, want %q, and that the file system hangs", before.WaitsFor(), err, owner.ForSettings)
	}
	if more := runtime.NumGoroutine() - goroutines; more > 10 { // the runtime may have a few
		t.Errorf("%d more goroutines after 20 calls, want only the one that hangs", more)
	}
	within(time.Second, "Renamed", before.Renamed)

	ctx, cancel := context.WithCancel(t.Context())
	n := owner.New(dir, control.DevicePlugin, zap.NewNop())
	taken := make(chan error, 1)
	go func() { taken <- n.Take(ctx, func() owner.Naming { return 1 }) }()
	patient.Await(t, "the file system hangs", func() error {
		if err := n.Waiting(); err == nil || !strings.Contains(err.Error(), "the file system hangs") {
			return fmt.Errorf("waits for %q, %w", n.WaitsFor(), err)
		}
		return nil
	})
	cancel()
	compare.ErrorIs(t, "error", context.Canceled, <-taken)

	release()
	patient.Await(t, "the new naming", func() error {
		if !before.Rename(t.Context(), 2) {
			return before.Waiting()
		}
		return nil
	})
	before.Renamed()
	alike := owner.New(dir, control.DRA, zap.NewNop())
	must.Succeed(t, alike.Take(t.Context(), func() owner.Naming { return 2 }))
	privatedirtest.Hang(t, dir)
	within(6*time.Second, "Leave", func() {
		before.Leave(t.Context(), func(context.Context) error {
			t.Error("withdraws although another daemon may own the node")
			return nil
		})
	})
}

// mount mounts a file system in memory until the test ends.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options+",mode=700"); errors.Is(err, syscall.EPERM) {
		t.Skip("not allowed to mount a file system")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must.Succeed(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

// A device plugin that has run on the node before can start even if the disk is full, or read-only after an error.
func TestDisk(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"full": func(dir string) error {
			for i := range 100 {
				if err := os.Mkdir(filepath.Join(dir, string(rune('A'+i))), 0o700); err != nil {
					return nil
				}
			}
			return errors.New("found space")
		},
		"read-only": func(dir string) error { return syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := privatedirtest.Dir(t)
			mount(t, dir, "nr_inodes=8")
			onNodeWith(t, dir, func(n *node) {
				plugin := n.owner(control.DevicePlugin)
				plugin.leave()
				must.Succeed(n, spoil(dir))
				for range 2 {
					plugin = n.owner(control.DevicePlugin)
					second := n.owner(control.DevicePlugin)
					// Not any earlier: the driver could hold the guard, and the other plugin would wait for it.
					driver := n.start(control.DRA)
					driver.waits(time.Second)
					driver.stop()
					plugin.leave()
					second.Kill()
				}
			})
		})
	}
}
