package watcher_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/watcher"
	"go.uber.org/zap"
)

// usage returns the number of open descriptors and the number of goroutines.
func usage(t *testing.T) (descriptors, goroutines int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("descriptors cannot be counted: %v", err)
	}
	return len(entries), runtime.NumGoroutine()
}

// settle waits until there are no more descriptors and goroutines than before. A goroutine that has closed its channel
// may not have exited yet.
func settle(t *testing.T, descriptors, goroutines int) {
	t.Helper()
	patient.Await(t, "what is left behind", func() error {
		if d, g := usage(t); d > descriptors || g > goroutines {
			stacks := make([]byte, 1<<16)
			return fmt.Errorf("%d descriptors, %d goroutines\n%s", d-descriptors, g-goroutines, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

func TestNothingLeftBehind(t *testing.T) {
	tests := []struct {
		name string
		use  func(t *testing.T, w *watcher.Watcher, cfg watcher.Config)
	}{
		{"closed, never run", func(_ *testing.T, w *watcher.Watcher, _ watcher.Config) {
			w.Close()
			w.Close()
		}},
		{"cancelled before run", func(t *testing.T, w *watcher.Watcher, _ watcher.Config) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			ran(t, w, ctx)
		}},
		{"cancelled while idle", func(t *testing.T, w *watcher.Watcher, cfg watcher.Config) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan struct{})
			heard := make(chan struct{}, 64)
			go func() {
				defer close(done)
				_ = w.Run(ctx, func(watcher.Hint) { heard <- struct{}{} })
			}()
			write(t, "", cfg.Host.Dev, "dfl-port.0")
			<-heard
			cancel()
			<-done
		}},
		{"cancelled while a source is lost", func(t *testing.T, w *watcher.Watcher, cfg watcher.Config) {
			must.Succeed(t, os.RemoveAll(filepath.Dir(cfg.Host.Dev)))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			ran(t, w, ctx)
		}},
	}
	// The first descriptor makes the Go runtime open its poller.
	newRecorder(t, simulated(t)).Close()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := simulated(t)
			mkdir(t, cfg.Host.Sys, "devices/pci0000:00/0000:01:00.0")
			descriptors, goroutines := usage(t)
			tt.use(t, watcher.New(cfg, zap.NewNop()), cfg)
			settle(t, descriptors, goroutines)
		})
	}
}

func ran(t *testing.T, w *watcher.Watcher, ctx context.Context) {
	t.Helper()
	compare.NoError(t, "Run", w.Run(ctx, func(watcher.Hint) {}))
}
