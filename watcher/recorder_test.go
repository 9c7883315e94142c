package watcher_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/watcher"
)

// TestMain runs the tests on a memory file system, where trees are created faster.
func TestMain(m *testing.M) { os.Exit(patient.Main(m)) }

// recorder is a watcher that records its hints and log lines, and wakes the test after each one.
type recorder struct {
	*watcher.Watcher
	logs *observer.ObservedLogs

	mu    sync.Mutex
	hints []watcher.Hint
	news  chan struct{} // closed at the next hint or log line
}

func newRecorder(t *testing.T, cfg watcher.Config) *recorder {
	t.Helper()
	h := &recorder{news: make(chan struct{})}
	core, logs := eventtest.Observed(t)
	h.logs = logs
	h.Watcher = watcher.New(cfg, zap.New(core, zap.Hooks(func(zapcore.Entry) error {
		h.wake()
		return nil
	})))
	t.Cleanup(h.Close)
	return h
}

// run starts the watcher, which runs until stop is called or the test ends.
func (h *recorder) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx, h.hint) }()
	stop = sync.OnceFunc(func() {
		cancel()
		compare.NoError(t, "Run", <-done)
	})
	t.Cleanup(stop)
	return stop
}

func (h *recorder) hint(hint watcher.Hint) {
	h.mu.Lock()
	h.hints = append(h.hints, hint)
	h.mu.Unlock()
	h.wake()
}

func (h *recorder) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.news)
	h.news = make(chan struct{})
}

// await calls ok after each hint and log line until it returns true.
func (h *recorder) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.NewTimer(patient.Limit)
	defer late.Stop()
	for {
		h.mu.Lock()
		news := h.news
		h.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-news:
		case <-late.C:
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Fatalf("%s: found none in %v; last hints: %+v", what, patient.Limit, h.hints[max(0, len(h.hints)-10):])
		}
	}
}

// expect waits for a hint equal to want, ignoring its time, and then removes that hint and all earlier ones.
func (h *recorder) expect(t *testing.T, want watcher.Hint) {
	t.Helper()
	looked := 0 // hints compared so far; a test may cause tens of thousands of them
	h.await(t, "hint "+want.Source+" "+want.Card+want.Node, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for ; looked < len(h.hints); looked++ {
			got := h.hints[looked]
			if got.At.IsZero() {
				t.Errorf("hint without time: %+v", got)
			}
			got.At = time.Time{}
			if got == want {
				h.hints = h.hints[looked+1:]
				return true
			}
		}
		return false
	})
}

// any reports whether f returns true for any hint after the last expected one.
func (h *recorder) any(f func(watcher.Hint) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hint := range h.hints {
		if f(hint) {
			return true
		}
	}
	return false
}

// lines returns the log lines with this event name at this level.
func (h *recorder) lines(level zapcore.Level, event string) []observer.LoggedEntry {
	return h.logs.FilterLevelExact(level).FilterField(zap.String("event", event)).All()
}

// expectLine waits for a log line with this event name, level and fields, and returns all of its fields.
func (h *recorder) expectLine(t *testing.T, level zapcore.Level, event string, fields map[string]any) map[string]any {
	t.Helper()
	var found map[string]any
	h.await(t, "log line "+event, func() bool {
		for _, line := range h.lines(level, event) {
			found = line.ContextMap()
			if contains(found, fields) {
				return true
			}
		}
		return false
	})
	return found
}

func contains(all, some map[string]any) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return true
}

// simulated returns a configuration for an empty simulated node.
func simulated(t *testing.T) watcher.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := watcher.Config{
		Host:  sysfs.Host{Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), Simulated: true},
		Nodes: []string{"dfl-", "intel-fpga-"}, Metrics: metrics.New("test"),
	}
	mkdir(t, cfg.Host.Sys)
	mkdir(t, cfg.Host.Dev)
	return cfg
}

func mkdir(t *testing.T, elem ...string) string {
	t.Helper()
	path := filepath.Join(elem...)
	must.Succeed(t, os.MkdirAll(path, 0o755))
	return path
}

func write(t *testing.T, text string, elem ...string) string {
	t.Helper()
	path := filepath.Join(elem...)
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}
