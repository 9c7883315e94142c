package notify_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/test/must"
)

// patience is the time after which a wait fails. Each wait normally takes a small fraction of it.
const patience = 20 * time.Second

func open(t *testing.T) *notify.Instance {
	t.Helper()
	n := must.Value(notify.Open())(t)
	t.Cleanup(n.Close)
	return n
}

// expect waits for the event.
func expect(t *testing.T, n *notify.Instance, path string, op fsnotify.Op) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e := <-n.Events():
			if e.Name == path && e.Has(op) {
				return
			}
		case err := <-n.Failed():
			t.Fatal(err)
		case <-limit:
			t.Fatalf("found no event %v of %s in %v", op, path, patience)
		}
	}
}

func TestWatching(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(dir string) error
		op   fsnotify.Op
	}{
		{"removed", os.RemoveAll, fsnotify.Remove},
		{"moved", func(dir string) error { return os.Rename(dir, dir+".old") }, fsnotify.Rename},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := open(t)
			dir := filepath.Join(t.TempDir(), "d")
			if n.Watching(dir) {
				t.Error("a new instance has a watch")
			}
			must.Succeed(t, os.Mkdir(dir, 0o755))
			for range 2 {
				must.Succeed(t, n.Add(dir))
			}
			file := filepath.Join(dir, "f")
			must.Succeed(t, os.WriteFile(file, nil, 0o600))
			expect(t, n, file, fsnotify.Create)
			if !n.Watching(dir) {
				t.Error("the directory is not watched")
			}
			must.Succeed(t, tc.end(dir))
			expect(t, n, dir, tc.op)
			if n.Watching(dir) {
				t.Error("the directory is still watched")
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	n := open(t)
	path := filepath.Join(t.TempDir(), "none")
	err := n.Add(path)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "watch "+path) {
		t.Errorf("error %v, want one with the path that wraps fs.ErrNotExist", err)
	}
}

// Directories are made, watched, moved and removed faster than their events are handled, and no
// goroutine receives from Failed. Add does not block.
func TestChurn(t *testing.T) {
	n := open(t)
	root := t.TempDir()
	ended := make(chan error, 1)
	go func() { ended <- churn(n, filepath.Join(root, "d"), filepath.Join(root, "e")) }()
	limit := time.After(patience)
	for {
		select {
		case <-n.Events():
		case err := <-ended:
			must.Succeed(t, err)
			return
		case <-limit:
			t.Fatalf("churn has not ended after %v", patience)
		}
	}
}

func churn(n *notify.Instance, dir, moved string) error {
	for range 500 {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := n.Add(dir); err != nil {
			return err
		}
		n.Watching(dir)
		if err := os.Rename(dir, moved); err != nil {
			return err
		}
		if err := os.Remove(moved); err != nil {
			return err
		}
	}
	return nil
}

// Close does not block if events have not been received.
func TestCloseWithPendingEvents(t *testing.T) {
	n := must.Value(notify.Open())(t)
	dir := t.TempDir()
	must.Succeed(t, n.Add(dir))
	for range 100 {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
	}
	n.Close()
	for range n.Events() { // closed
	}
}
