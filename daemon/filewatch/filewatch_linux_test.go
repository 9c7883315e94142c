package filewatch_test

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

	"b-com.com/accelerator-device-plugin/daemon/filewatch"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/logevent/eventtest"
)

// patience is the longest wait. It is shorter than the intervals, so a report within it comes from
// inotify.
const patience = filewatch.BlindInterval - time.Second

// watched is a file in a directory, with the reports of Run about it.
type watched struct {
	t         *testing.T
	dir, file string
	seen      chan string // content, or "missing"
}

func watch(t *testing.T, prepare func(w *watched)) *watched {
	dir := filepath.Join(t.TempDir(), "d")
	w := &watched{t: t, dir: dir, file: filepath.Join(dir, "f"), seen: make(chan string)}
	w.do(os.Mkdir(dir, 0o700))
	prepare(w)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- filewatch.Run(ctx, []string{w.file, filepath.Join(dir, "other")}, func() {
			content, err := os.ReadFile(w.file)
			if errors.Is(err, fs.ErrNotExist) {
				content = []byte("missing")
			}
			select {
			case w.seen <- string(content):
			case <-ctx.Done():
			}
		}, zap.NewNop())
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *watched) do(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) write(path, content string) { w.do(os.WriteFile(path, []byte(content), 0o600)) }

// await blocks until the content is reported.
func (w *watched) await(want string) {
	w.t.Helper()
	limit := time.After(patience)
	last := "nothing"
	for {
		select {
		case last = <-w.seen:
			if last == want {
				return
			}
		case <-limit:
			w.t.Fatalf("reported %q, want %q", last, want)
		}
	}
}

// step is a change, and the expected report.
type step struct {
	want string
	do   func(w *watched)
}

func TestRun(t *testing.T) {
	t.Parallel()
	plain := func(w *watched) { w.write(w.file, "1") }
	// As the kubelet does it (AtomicWriter in k8s.io/kubernetes/pkg/volume/util).
	publish := func(w *watched, version string) {
		w.do(os.Mkdir(filepath.Join(w.dir, "..v"+version), 0o700))
		if version != "missing" {
			w.write(filepath.Join(w.dir, "..v"+version, "f"), version)
		}
		w.do(os.Symlink("..v"+version, filepath.Join(w.dir, "..data_tmp")),
			os.Rename(filepath.Join(w.dir, "..data_tmp"), filepath.Join(w.dir, "..data")))
	}
	for _, test := range []struct {
		name    string
		prepare func(*watched)
		steps   []step
	}{
		{"written in place", plain, []step{{"2", func(w *watched) { w.write(w.file, "2") }}}},
		{"renamed over", plain, []step{{"2", func(w *watched) {
			w.write(w.file+"~", "2")
			w.do(os.Rename(w.file+"~", w.file))
		}}}},
		{"removed and back", plain, []step{
			{"missing", func(w *watched) { w.do(os.Remove(w.file)) }},
			{"2", func(w *watched) { w.write(w.file, "2") }},
		}},
		{"ConfigMap", func(w *watched) {
			publish(w, "1")
			w.do(os.Symlink("..data/f", w.file))
		}, []step{
			{"2", func(w *watched) { publish(w, "2") }},
			{"missing", func(w *watched) { publish(w, "missing") }},
			{"3", func(w *watched) { publish(w, "3") }},
		}},
		{"directory moved, and another one in its place", plain, []step{
			{"2", func(w *watched) {
				w.do(os.Mkdir(w.dir+".new", 0o700))
				w.write(filepath.Join(w.dir+".new", "f"), "2")
				w.do(os.Rename(w.dir, w.dir+".old"), os.Rename(w.dir+".new", w.dir))
			}},
			{"3", func(w *watched) { w.write(w.file, "3") }},
		}},
		{"directory made again", plain, []step{
			{"2", func(w *watched) {
				w.do(os.RemoveAll(w.dir), os.Mkdir(w.dir, 0o700))
				w.write(w.file, "2")
			}},
			{"3", func(w *watched) { w.write(w.file, "3") }},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, test.prepare)
			w.await("1")
			for _, step := range test.steps {
				step.do(w)
				w.await(step.want)
			}
		})
	}
}

// A directory that is created later is watched by the next Open.
func TestDirectoryComes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	file := filepath.Join(dir, "f")
	w := filewatch.New([]string{file}, []string{dir}, zap.NewNop())
	defer w.Close()
	w.Open()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.Open()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-w.Events():
		if e.Name != file {
			t.Errorf("event %v, want one of %s", e, file)
		}
	case <-time.After(patience):
		t.Error("no event")
	}
}

// If the node has no inotify instances left, one warning is logged, until there are some again.
func TestRefused(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	core, logs := eventtest.Observed(t)
	dir := t.TempDir()
	w := filewatch.New([]string{filepath.Join(dir, "f")}, []string{dir}, zap.New(core))
	defer w.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	w.Open()
	w.Open()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if w.Events() != nil {
		t.Error("watched without a descriptor")
	}
	if n := logs.FilterField(logevent.SourceLost).Len(); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	w.Open()
	if w.Events() == nil || logs.FilterField(logevent.SourceRecovered).Len() != 1 {
		t.Errorf("not watched again: %v", logs.All())
	}
}
