package watcher_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/watcher"
)

// shortPatience is how long a source may be busy in these tests.
const shortPatience = 50 * time.Millisecond

// blocker blocks a source until it is released.
type blocker struct {
	in      chan struct{} // closed when the source is blocked
	out     chan struct{} // closed to release the source
	enter   func()        // closes in
	release func()        // closes out
}

func newBlocker() *blocker {
	w := &blocker{in: make(chan struct{}), out: make(chan struct{})}
	w.enter = sync.OnceFunc(func() { close(w.in) })
	w.release = sync.OnceFunc(func() { close(w.out) })
	return w
}

func (w *blocker) block() {
	w.enter()
	<-w.out
}

// runBlocked runs a watcher with cfg, calls cause, and waits until the resulting event blocks the source: in the call
// to hint, or, if inLog isn't "", in the log line with that message.
func runBlocked(t *testing.T, cfg watcher.Config, inLog string, cause func()) (*watcher.Watcher, *blocker) {
	t.Helper()
	stuck := newBlocker()
	hint := func(watcher.Hint) { stuck.block() }
	core := zapcore.NewNopCore()
	if inLog != "" {
		hint = func(watcher.Hint) {}
		core = &blockingCore{LevelEnabler: zap.DebugLevel, message: inLog, blocker: stuck}
	}
	w := watcher.New(cfg, zap.New(core))
	w.SetPatience(shortPatience)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, hint) }()
	t.Cleanup(func() {
		cancel()
		stuck.release()
		compare.NoError(t, "Run", <-done)
	})
	compare.NoError(t, "Alive before the first event", w.Alive())
	cause()
	patient.Await(t, "the event that blocks a source", func() error {
		select {
		case <-stuck.in:
			return nil
		default:
			return errors.New("no source is blocked")
		}
	})
	return w, stuck
}

// blockingCore blocks when it logs the given message.
type blockingCore struct {
	zapcore.LevelEnabler
	message string
	blocker *blocker
}

func (c *blockingCore) With([]zapcore.Field) zapcore.Core { return c }

func (c *blockingCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(e, c)
}

func (c *blockingCore) Write(e zapcore.Entry, _ []zapcore.Field) error {
	if e.Message == c.message {
		c.blocker.block()
	}
	return nil
}

func (c *blockingCore) Sync() error { return nil }

// awaitAlive waits until Alive returns an error that starts with want, or nil if want is "".
func awaitAlive(t *testing.T, w *watcher.Watcher, want string) {
	t.Helper()
	patient.Await(t, "Alive", func() error {
		err := w.Alive()
		if want != "" && err != nil && strings.HasPrefix(err.Error(), want) || want == "" && err == nil {
			return nil
		}
		return fmt.Errorf("found %v, want %q", err, want)
	})
}

// Alive reports a source that is blocked in hint or in the log, and only that source. Once the source is released,
// Alive returns nil again.
func TestStuckSource(t *testing.T) {
	node := func(cfg watcher.Config) func() { return func() { write(t, "", cfg.Host.Dev, "dfl-port.0") } }
	directory := func(cfg watcher.Config) func() { return func() { mkdir(t, cfg.Host.Sys, portDir) } }
	for _, test := range []struct {
		name  string
		inLog string
		cause func(watcher.Config) func()
		want  string
	}{
		{"nodes in a hint", "", node, "watcher of nodes: stuck for "},
		{"nodes in the log", "node event received", node, "watcher of nodes: stuck for "},
		{"tree in a hint", "", directory, "watcher of tree: stuck for "},
		{"tree in the log", "tree event received", directory, "watcher of tree: stuck for "},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := simulated(t)
			w, stuck := runBlocked(t, cfg, test.inLog, test.cause(cfg))
			awaitAlive(t, w, test.want)
			stuck.release()
			awaitAlive(t, w, "")
		})
	}
}

// TestStuckUEvents is like TestStuckSource, but with a real netlink socket.
func TestStuckUEvents(t *testing.T) {
	for _, test := range []struct{ name, inLog string }{{"in a hint", ""}, {"in the log", "uevent received"}} {
		t.Run(test.name, func(t *testing.T) {
			listening(t).Close() // skips the test if uevents aren't available
			cfg := simulated(t)
			cfg.Subsystems = []string{"mem"}
			w, stuck := runBlocked(t, cfg, test.inLog, func() { provoke(t, memNull, "change "+uuid) })
			awaitAlive(t, w, "watcher of uevent: stuck for ")
			stuck.release()
			awaitAlive(t, w, "")
		})
	}
}

// A source that waits for events counts as alive, no matter how long it waits. So does a source that was lost and is
// waiting to be reopened.
func TestWaitingSourceIsAlive(t *testing.T) {
	t.Parallel()
	cfg := simulated(t)
	h := newRecorder(t, cfg)
	h.SetPatience(10 * shortPatience)
	h.run(t)
	must.Succeed(t, os.Remove(cfg.Host.Dev))
	h.expectLine(t, zap.WarnLevel, "source.lost", map[string]any{"path": cfg.Host.Dev})
	look := time.NewTicker(shortPatience)
	defer look.Stop()
	for range 25 { // longer than a source may be busy, and long enough for another attempt to open it
		<-look.C
		if err := h.Alive(); err != nil {
			t.Fatalf("Alive() = %v", err)
		}
	}
	mkdir(t, cfg.Host.Dev)
	h.expect(t, watcher.Hint{Source: watcher.SourceReopen})
	awaitAlive(t, h.Watcher, "")
}
