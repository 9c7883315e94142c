package patient

import (
	"context"
	"errors"
	"flag"
	"os"
	"syscall"
	"testing"
	"time"
)

// Limit is how long a test waits for something that should happen soon. No test may pass because this limit was
// reached.
const Limit = time.Minute

// Await waits until met returns nil. If that takes too long, the test fails with met's last error.
func Await(t testing.TB, when string, met func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		err := met()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", when, err)
		}
	}
}

// Until is like [Await], for a condition that doesn't have an error.
func Until(t testing.TB, what string, met func() bool) {
	t.Helper()
	Await(t, what, func() error {
		if met() {
			return nil
		}
		return errNotMet
	})
}

var errNotMet = errors.New("not found")

// Elapse lets the given time pass, so that the test can check that nothing happens in the meantime.
func Elapse(t testing.TB, during time.Duration) {
	t.Helper()
	end := time.NewTimer(during)
	defer end.Stop()
	select {
	case <-end.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// Disk is the directory for programs and large temporary files.
var Disk = os.TempDir()

// memory is an in-memory file system, which makes simulated nodes several times faster, because they consist of
// thousands of files.
const memory, memoryNeeded = "/dev/shm", 512 << 20

// Main runs a package's tests, and returns the exit code. Temporary directories are in memory, unless TMPDIR is set or
// there isn't enough memory. Tests spend most of their time waiting, so more of them run in parallel than there are
// processors.
func Main(m *testing.M) int {
	if err := flag.Set("test.parallel", "8"); err != nil { // the command line can override this
		panic(err)
	}
	var at syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &at) == nil && uint64(at.Bavail)*uint64(at.Bsize) >= memoryNeeded {
		_ = os.Setenv("TMPDIR", memory)
	}
	return m.Run()
}
