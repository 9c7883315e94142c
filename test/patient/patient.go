package patient

import (
	"context"
	"flag"
	"os"
	"syscall"
	"testing"
	"time"
)

// Limit is how long a test waits for something that should happen soon. A test must never pass because this time is
// over.
const Limit = time.Minute

// Await blocks until met returns nil. If that takes too long, it fails the test with the last error of met.
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

// Elapse blocks for this time, so that the test can see that nothing happens meanwhile.
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

// Disk is the directory for large temporary files, and for programs.
var Disk = os.TempDir()

// memory is a file system in memory. Simulated nodes consist of thousands of files, and are several times as fast
// there.
const memory, memoryNeeded = "/dev/shm", 512 << 20

// Main runs the tests of a package, and returns the exit code. Temporary directories are in memory, unless TMPDIR is
// set or memory is short. More tests than processors run at once, because tests wait most of the time.
func Main(m *testing.M) int {
	if err := flag.Set("test.parallel", "8"); err != nil { // the command line may override this
		panic(err)
	}
	var at syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &at) == nil && uint64(at.Bavail)*uint64(at.Bsize) >= memoryNeeded {
		_ = os.Setenv("TMPDIR", memory)
	}
	return m.Run()
}
