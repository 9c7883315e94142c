package programming_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Only one process at a time can hold a card's lock. The privatedir package tests the lock itself.
func TestLock(t *testing.T) {
	dir := filepath.Join(ownDir(t), "run", "accelerator-fpga")
	lock := must.Value(programming.AcquireLock(t.Context(), dir, "0000:01:00.0"))(t)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := programming.AcquireLock(now, dir, "0000:01:00.0"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "0000:01:00.0.lock: held by another process") {
		t.Errorf("%v, want that it is held", err)
	}
	other, err := programming.AcquireLock(now, dir, "0000:02:00.0")
	if err != nil {
		t.Fatalf("another FME: %v", err)
	}
	must.Succeed(t, other.Release(), lock.Release())
	if lock, err = programming.AcquireLock(now, dir, "0000:01:00.0"); err != nil {
		t.Fatal(err)
	}
	lock.Release()
}

func TestLockRefused(t *testing.T) {
	dir := ownDir(t)
	for _, name := range []string{"", "../x", "a/b", ".", "..", "\x00", "dfl-fme.0"} {
		compare.Error(t, fmt.Sprintf("name %q", name), "want a PCI address DDDD:BB:DD.F", compare.ErrorOf(programming.AcquireLock(t.Context(), dir, name)))
	}
	for _, mode := range []fs.FileMode{0o775, 0o777 | os.ModeSticky} {
		chmod(t, dir, mode)
		compare.Error(t, "mode "+mode.String(), "chmod go-w", compare.ErrorOf(programming.AcquireLock(t.Context(), dir, "0000:02:00.0")))
	}
}
