package owner_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// A device plugin that has once run on the node starts although the disk is full, or read-only after an error.
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
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=8,mode=700"); errors.Is(err, syscall.EPERM) {
				t.Skip("not allowed to mount a file system")
			} else if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				plugin := start(t, dir, control.DevicePlugin)
				plugin.owns(0)
				plugin.Leave(t.Context(), nothing)
				if err := spoil(dir); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if plugin = start(t, dir, control.DevicePlugin); !plugin.owns(0) {
						t.Fatalf("the plugin waits: %v", plugin.Waiting())
					}
					second := start(t, dir, control.DevicePlugin)
					if !second.owns(0) {
						t.Errorf("the other plugin waits: %v", second.Waiting())
					}
					// Not before: the driver could hold the guard, and the other plugin would wait for it.
					driver := start(t, dir, control.DRA)
					if driver.owns(time.Second) {
						t.Error("found a driver that owns the node, too")
					}
					driver.stop()
					plugin.Leave(t.Context(), nothing)
					second.Kill()
				}
			})
		})
	}
}
