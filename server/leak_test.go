package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/test/patient"
)

// TestMain fails if the tests leave goroutines or descriptors behind.
func TestMain(m *testing.M) {
	goroutines, files := runtime.NumGoroutine(), descriptors()
	code := patient.Main(m)
	limit, again := time.NewTimer(testTimeout), time.NewTicker(5*time.Millisecond)
	for code == 0 && (runtime.NumGoroutine() > goroutines || descriptors() > files) {
		select {
		case <-again.C:
		case <-limit.C:
			stacks := make([]byte, 1<<20)
			fmt.Printf("goroutines: found %d, want %d; descriptors: found %d, want %d\n%s\n", runtime.NumGoroutine(), goroutines,
				descriptors(), files, stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}

// descriptors returns the number of open files, not counting the Go runtime's own.
func descriptors() (n int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err == nil && !strings.HasPrefix(target, "anon_inode:[event") {
			n++
		}
	}
	return n
}
