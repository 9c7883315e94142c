package dirwatch_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/task"
)

// watched is a file in a directory, with the reports of Run about it.
type watched struct {
	t         *testing.T
	dir, file string
	seen      chan string // content, or "missing"
}

// watch runs Run with intervals that are longer than any test, so each report comes from inotify.
func watch(t *testing.T) *watched {
	dir := filepath.Join(t.TempDir(), "d")
	w := &watched{t: t, dir: dir, file: filepath.Join(dir, "f"), seen: make(chan string)}
	w.do(os.Mkdir(dir, 0o700))
	w.write(w.file, "1")
	task.Run(t, func(ctx context.Context) error {
		cfg := dirwatch.Config{
			Dirs: []string{dir, dir}, Concerns: func(e notify.Event) bool { return filepath.Base(e.Name) == "f" },
			Settle: time.Millisecond, Interval: time.Hour, Blind: 10 * time.Millisecond, Log: zap.NewNop(),
		}
		dirwatch.Run(ctx, cfg, func() {
			content, err := os.ReadFile(w.file)
			if errors.Is(err, fs.ErrNotExist) {
				content = []byte("missing")
			}
			select {
			case w.seen <- string(content):
			case <-ctx.Done():
			}
		})
		return nil
	})
	return w
}

func (w *watched) do(errs ...error) {
	w.t.Helper()
	must.Succeed(w.t, errs...)
}

func (w *watched) write(path, content string) { w.do(os.WriteFile(path, []byte(content), 0o600)) }

// await blocks until the content is reported.
func (w *watched) await(want string) {
	for got := range w.seen { // go test ends a test in which it never is
		if got == want {
			return
		}
	}
}

func TestRun(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps map[string]func(w *watched) // by the expected report; in any order
	}{
		{"written in place", map[string]func(w *watched){
			"2": func(w *watched) { w.write(w.file, "2") },
			"3": func(w *watched) { w.write(w.file, "3") },
		}},
		{"renamed over", map[string]func(w *watched){"2": func(w *watched) {
			w.write(w.file+"~", "2")
			w.do(os.Rename(w.file+"~", w.file))
		}}},
		{"removed", map[string]func(w *watched){"missing": func(w *watched) { w.do(os.Remove(w.file)) }}},
		{"directory moved, and another one in its place", map[string]func(w *watched){"2": func(w *watched) {
			w.do(os.Mkdir(w.dir+".new", 0o700))
			w.write(filepath.Join(w.dir+".new", "f"), "2")
			w.do(os.Rename(w.dir, w.dir+".old"), os.Rename(w.dir+".new", w.dir))
		}}},
		{"directory made again", map[string]func(w *watched){"2": func(w *watched) {
			w.do(os.RemoveAll(w.dir), os.Mkdir(w.dir, 0o700))
			w.write(w.file, "2")
		}}},
		{"directory missing for a while", map[string]func(w *watched){"2": func(w *watched) {
			w.do(os.RemoveAll(w.dir))
			w.await("missing")
			w.do(os.Mkdir(w.dir, 0o700))
			w.write(w.file, "2")
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := watch(t)
			w.await("1")
			for want, do := range test.steps {
				do(w)
				w.await(want)
			}
			w.do(os.MkdirAll(w.dir, 0o700))
			w.write(w.file, "last") // the directory is still watched
			w.await("last")
		})
	}
}

// If the node has no inotify instances left, one warning is logged, until there are some again.
func TestRefused(t *testing.T) {
	var limit syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	core, logs := eventtest.Observed(t)
	w := dirwatch.New(dirwatch.Config{Dirs: []string{t.TempDir()}, Log: zap.New(core)})
	defer w.Close()
	must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}))
	first, second := w.Open(), w.Open()
	must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if n := logs.FilterField(logevent.SourceLost).Len(); n != 1 || first || second {
		t.Errorf("%d warnings, want 1; watched without a descriptor: %v", n, first || second)
	}
	first, second = w.Open(), w.Open()
	if !first || !second || logs.FilterField(logevent.SourceRecovered).Len() != 1 {
		t.Errorf("not watched again: %v", logs.All())
	}
}
