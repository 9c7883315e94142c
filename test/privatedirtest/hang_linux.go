package privatedirtest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
)

// Hang makes a directory hang until release is called or the test ends. To do that, it mounts a FUSE file system there
// that no process serves. Once release has returned, the directory is as it was before. If the file system can't be
// mounted, Hang skips the test.
func Hang(t testing.TB, dir string) (release func()) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("FUSE is not available: %v", err)
	}
	err = syscall.Mount("test", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd()))
	if err != nil {
		fuse.Close()
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENODEV) {
		t.Skipf("not allowed to mount a file system: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		fuse.Close() // ends the hanging system calls
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	})
	t.Cleanup(release)
	return release
}
