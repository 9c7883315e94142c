package server_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// noLeaks fails the test if goroutines or descriptors are left at its end.
func noLeaks(t testing.TB) {
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	t.Cleanup(func() {
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		limit := time.NewTimer(testTimeout)
		defer limit.Stop()
		for runtime.NumGoroutine() > goroutines || descriptors(t) > files {
			select {
			case <-again.C:
			case <-limit.C:
				stacks := make([]byte, 1<<20)
				t.Errorf("goroutines: found %d, want %d; descriptors: found %d, want %d\n%s", runtime.NumGoroutine(), goroutines,
					descriptors(t), files, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}

// descriptors returns the number of open files, without those of the Go runtime.
func descriptors(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err == nil && !strings.HasPrefix(target, "anon_inode:[event") {
			n++
		}
	}
	return n
}
