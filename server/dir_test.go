package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/server"
)

// Changes of the kubelet's directory itself while a resource is registered.
func TestDirectoryReplaced(t *testing.T) {
	for _, tc := range []struct {
		name    string
		replace func(dir string) error // leaves no directory, or an empty one
		poll    time.Duration
		event   string // that follows
	}{
		{"removed", removeAll, pollOften, "kubelet.absent"},
		{"moved away", func(dir string) error { return os.Rename(dir, dir+".old") }, pollOften, "kubelet.absent"},
		{"removed and made again", func(dir string) error {
			if err := removeAll(dir); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o755)
		}, time.Hour, "kubelet.absent"}, // the new watch must do
		{"a file in its place", func(dir string) error {
			if err := removeAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o644)
		}, pollOften, "register.failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.PollInterval = tc.poll })
			k := r.kubelet(simkubelet.Behaviour{})
			r.run()
			r.devices.set(port("a"))
			r.awaitList(k)
			r.awaitReady()
			if err := tc.replace(r.cfg.KubeletDir); err != nil {
				t.Fatal(err)
			}
			r.awaitEvent("socket.lost", 1)
			k.Kill()
			r.awaitEvent(tc.event, 1)
			if info, err := os.Stat(r.cfg.KubeletDir); err == nil && !info.IsDir() {
				if err := os.Remove(r.cfg.KubeletDir); err != nil {
					t.Fatal(err)
				}
			}
			k = r.kubelet(simkubelet.Behaviour{})
			r.awaitList(k)
			r.awaitReady()
			// The new directory is watched as the old one was.
			if err := os.Remove(r.socket()); err != nil {
				t.Fatal(err)
			}
			r.awaitEvent("socket.lost", 2)
			r.awaitReady()
		})
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	unlessRoot(t)
	r := newRig(t, nil)
	k := r.kubelet(simkubelet.Behaviour{})
	if err := os.Chmod(r.cfg.KubeletDir, 0o555); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("register.failed", 2)
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "socket for the kubelet: ") || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("ready says %v", err)
	}
	if n := k.Registrations(resource); n != 0 {
		t.Errorf("%d registrations without a socket", n)
	}
	if err := os.Chmod(r.cfg.KubeletDir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.awaitList(k)
	r.awaitReady()
}

// Where inotify is refused, changes are found by looking.
func TestWatchRefused(t *testing.T) {
	unlessRoot(t)
	r := newRig(t, func(c *server.Config) { c.PollInterval = 20 * time.Millisecond })
	k := r.kubelet(simkubelet.Behaviour{})
	// A directory that may not be read cannot be watched either.
	if err := os.Chmod(r.cfg.KubeletDir, 0o333); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.devices.set(port("a"))
	r.awaitList(k)
	r.awaitReady()
	if err := os.Remove(r.socket()); err != nil {
		t.Fatal(err)
	}
	r.awaitEvent("resource.registered", 2)
	r.awaitReady()
	if n := r.events("source.lost"); n != 1 {
		t.Errorf("the refusal was logged %d times, want once", n)
	}
	if err := os.Chmod(r.cfg.KubeletDir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.awaitEvent("source.recovered", 1)
}

func TestNoSocketButAFile(t *testing.T) {
	r := newRig(t, nil)
	path := filepath.Join(r.cfg.KubeletDir, simkubelet.Socket)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("register.failed", 1)
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "is a file of another kind") {
		t.Errorf("ready says %v", err)
	}
	r.expectWarning(path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.awaitList(r.kubelet(simkubelet.Behaviour{}))
}

// An error while looking for the kubelet's socket does not mean that there is no kubelet.
func TestKubeletNotToBeSeen(t *testing.T) {
	t.Run("a file for a directory", func(t *testing.T) {
		r := newRig(t, nil)
		if err := os.Remove(r.cfg.KubeletDir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.cfg.KubeletDir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.run()
		r.devices.set(port("a"))
		r.expectWarning("not a directory")
		if err := os.Remove(r.cfg.KubeletDir); err != nil {
			t.Fatal(err)
		}
		r.awaitEvent("kubelet.absent", 1)
		r.awaitList(r.kubelet(simkubelet.Behaviour{}))
	})
	t.Run("permission denied", func(t *testing.T) {
		unlessRoot(t)
		r := newRig(t, nil)
		if err := os.Chmod(r.cfg.KubeletDir, 0); err != nil {
			t.Fatal(err)
		}
		r.run()
		r.devices.set(port("a"))
		r.expectWarning("permission denied")
		if err := os.Chmod(r.cfg.KubeletDir, 0o755); err != nil {
			t.Fatal(err)
		}
		r.awaitList(r.kubelet(simkubelet.Behaviour{}))
	})
}

// expectWarning waits for the warning that kubelet.sock cannot be used.
func (r *rig) expectWarning(text string) {
	r.Helper()
	r.awaitEvent("register.failed", 1)
	line := r.lines("register.failed")[0]
	if got := line.ContextMap()["error"].(string); line.Level != zap.WarnLevel || !strings.Contains(got, text) {
		r.Errorf("%v %q, want a warning with %q", line.Level, got, text)
	}
	if n := r.events("kubelet.absent"); n > 0 {
		r.Errorf("the kubelet was called absent %d times", n)
	}
}

// removeAll removes the directory, the kubelet's socket first: else a new socket
// of ours may come in between.
func removeAll(dir string) error {
	if err := os.Remove(filepath.Join(dir, simkubelet.Socket)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func unlessRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("root is refused nothing")
	}
}
