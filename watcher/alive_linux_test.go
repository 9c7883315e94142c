package watcher_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/watcher"
)

// impatient is how long a source may be busy in these tests.
const impatient = 50 * time.Millisecond

// wedge is where a source gets stuck until it is released.
type wedge struct {
	in      chan struct{} // closed when somebody is in it
	out     chan struct{}
	enter   func() // closes in
	release func() // closes out
}

func newWedge() *wedge {
	w := &wedge{in: make(chan struct{}), out: make(chan struct{})}
	w.enter = sync.OnceFunc(func() { close(w.in) })
	w.release = sync.OnceFunc(func() { close(w.out) })
	return w
}

func (w *wedge) stick() {
	w.enter()
	<-w.out
}

// wedged runs a watcher on cfg that gets stuck with what it is told by cause, in
// hint or, where inLog is given, in the log line of that event.
func wedged(t *testing.T, cfg watcher.Config, inLog string, cause func()) (*watcher.Watcher, *wedge) {
	t.Helper()
	stuck := newWedge()
	hint := func(watcher.Hint) { stuck.stick() }
	core := zapcore.NewNopCore()
	if inLog != "" {
		hint = func(watcher.Hint) {}
		core = &stickyCore{LevelEnabler: zap.DebugLevel, message: inLog, wedge: stuck}
	}
	w := watcher.New(cfg, zap.New(core))
	w.LosePatience(impatient)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, hint) }()
	t.Cleanup(func() {
		cancel()
		stuck.release()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	if err := w.Alive(); err != nil {
		t.Errorf("before it hears anything: %v", err)
	}
	cause()
	select {
	case <-stuck.in:
	case <-time.After(patience):
		t.Fatal("nothing was heard")
	}
	return w, stuck
}

// stickyCore gets stuck in the line with a message.
type stickyCore struct {
	zapcore.LevelEnabler
	message string
	wedge   *wedge
}

func (c *stickyCore) With([]zapcore.Field) zapcore.Core { return c }

func (c *stickyCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(e, c)
}

func (c *stickyCore) Write(e zapcore.Entry, _ []zapcore.Field) error {
	if e.Message == c.message {
		c.wedge.stick()
	}
	return nil
}

func (c *stickyCore) Sync() error { return nil }

// awaitAlive waits until what Alive says begins with want; "" is nil.
func awaitAlive(t *testing.T, w *watcher.Watcher, want string) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for {
		got := ""
		if err := w.Alive(); err != nil {
			got = err.Error()
		}
		if strings.HasPrefix(got, want) && (want != "" || got == "") {
			return
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("Alive() = %q, want %q", got, want)
		}
	}
}

// A source that cannot get rid of what it has heard is stuck, and named; when it can,
// it is well again. The others are not meant.
func TestStuckSource(t *testing.T) {
	node := func(cfg watcher.Config) func() { return func() { write(t, "", cfg.Host.Dev, "dfl-port.0") } }
	directory := func(cfg watcher.Config) func() { return func() { mkdir(t, cfg.Host.Sys, portDir) } }
	tests := []struct {
		name  string
		inLog string
		cause func(watcher.Config) func()
		want  string
	}{
		{"nodes in a hint", "", node, "watcher of nodes: stuck for "},
		{"nodes in the log", "node event received", node, "watcher of nodes: stuck for "},
		{"tree in a hint", "", directory, "watcher of tree: stuck for "},
		{"tree in the log", "tree event received", directory, "watcher of tree: stuck for "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := simulated(t)
			w, stuck := wedged(t, cfg, test.inLog, test.cause(cfg))
			awaitAlive(t, w, test.want)
			stuck.release()
			awaitAlive(t, w, "")
		})
	}
}

// The same with real netlink.
func TestStuckUEvents(t *testing.T) {
	for _, test := range []struct{ name, inLog string }{{"in a hint", ""}, {"in the log", "uevent received"}} {
		t.Run(test.name, func(t *testing.T) {
			listening(t).Close() // or it is skipped
			cfg := simulated(t)
			cfg.Subsystems = []string{"mem"}
			w, stuck := wedged(t, cfg, test.inLog, func() { provoke(t, memNull, "change "+uuid) })
			awaitAlive(t, w, "watcher of uevent: stuck for ")
			stuck.release()
			awaitAlive(t, w, "")
		})
	}
}

// Who waits for news is well, however long it takes; so is a source that is lost and
// tried again.
func TestWaitingIsAlive(t *testing.T) {
	cfg := simulated(t)
	h := newHeard(t, cfg)
	h.LosePatience(10 * impatient)
	h.run(t)
	must(t, os.Remove(cfg.Host.Dev))
	h.expectLine(t, zap.WarnLevel, "source.lost", map[string]any{"path": cfg.Host.Dev})
	look := time.NewTicker(impatient)
	defer look.Stop()
	for range 25 { // for longer than anybody may be busy, and with one more attempt
		<-look.C
		if err := h.Alive(); err != nil {
			t.Fatalf("Alive() = %v", err)
		}
	}
	mkdir(t, cfg.Host.Dev)
	h.expect(t, watcher.Hint{Source: watcher.SourceReopen})
	awaitAlive(t, h.Watcher, "")
}
