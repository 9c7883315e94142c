package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The kubelet's directory itself is replaced while a resource is registered.
func TestDirectoryReplaced(t *testing.T) {
	for _, tc := range []struct {
		name    string
		replace func(dir string) error // afterwards there is no directory, or an empty one
		poll    time.Duration
		event   string // that the server logs next
	}{
		{"removed", removeAll, pollOften, "kubelet.absent"},
		{"moved away", func(dir string) error { return os.Rename(dir, dir+".old") }, pollOften, "kubelet.absent"},
		{"removed and created again", func(dir string) error {
			if err := removeAll(dir); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o755)
		}, time.Hour, "kubelet.absent"}, // noticed by the new watch, not by polling
		{"a file in its place", func(dir string) error {
			if err := removeAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o644)
		}, pollOften, "register.failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.PollInterval = tc.poll })
			k := r.serving(port("a"))
			must.Succeed(t, tc.replace(r.cfg.KubeletDir))
			r.awaitEvent("socket.lost", 1)
			k.Kill()
			r.awaitEvent(tc.event, 1)
			if info, err := os.Stat(r.cfg.KubeletDir); err == nil && !info.IsDir() {
				must.Succeed(t, os.Remove(r.cfg.KubeletDir))
			}
			k = r.kubelet(simkubelet.Behaviour{})
			r.awaitService(k)
			// The new directory is watched just like the old one.
			must.Succeed(t, os.Remove(r.socket()))
			r.awaitEvent("socket.lost", 2)
			r.awaitReady()
		})
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	skipRoot(t)
	r := newRig(t, nil)
	k := r.kubelet(simkubelet.Behaviour{})
	must.Succeed(t, os.Chmod(r.cfg.KubeletDir, 0o555))
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("register.failed", 2)
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "socket for the kubelet: ") || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("Ready: found %v, want permission denied for the socket", err)
	}
	compare.Equal(t, "registrations without a socket", 0, k.Registrations(resource))
	must.Succeed(t, os.Chmod(r.cfg.KubeletDir, 0o755))
	r.awaitService(k)
}

// If inotify doesn't work, changes are found by polling.
func TestWatchRefused(t *testing.T) {
	skipRoot(t)
	r := newRig(t, func(c *server.Config) { c.PollInterval = 20 * time.Millisecond })
	k := r.kubelet(simkubelet.Behaviour{})
	// A directory that can't be read can't be watched either.
	must.Succeed(t, os.Chmod(r.cfg.KubeletDir, 0o333))
	r.run()
	r.devices.set(port("a"))
	r.awaitService(k)
	must.Succeed(t, os.Remove(r.socket()))
	r.awaitEvent("resource.registered", 2)
	r.awaitReady()
	compare.Equal(t, "source.lost: lines", 1, r.events("source.lost"))
	must.Succeed(t, os.Chmod(r.cfg.KubeletDir, 0o755))
	r.awaitEvent("source.recovered", 1)
}

func TestFileInsteadOfSocket(t *testing.T) {
	r := newRig(t, nil)
	path := filepath.Join(r.cfg.KubeletDir, simkubelet.Socket)
	must.Succeed(t, os.WriteFile(path, nil, 0o600))
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("register.failed", 1)
	compare.Error(t, "Ready", "want a socket", r.Ready())
	r.expectWarning(path)
	must.Succeed(t, os.Remove(path))
	r.awaitList(r.kubelet(simkubelet.Behaviour{}))
}

// Only a missing file means that there is no kubelet. Any other error doesn't.
func TestKubeletSocketUnreadable(t *testing.T) {
	t.Run("a file instead of the directory", func(t *testing.T) {
		r := newRig(t, nil)
		must.Succeed(t, os.Remove(r.cfg.KubeletDir))
		must.Succeed(t, os.WriteFile(r.cfg.KubeletDir, nil, 0o600))
		r.run()
		r.devices.set(port("a"))
		r.expectWarning("not a directory")
		must.Succeed(t, os.Remove(r.cfg.KubeletDir))
		r.awaitEvent("kubelet.absent", 1)
		r.awaitList(r.kubelet(simkubelet.Behaviour{}))
	})
	t.Run("permission denied", func(t *testing.T) {
		skipRoot(t)
		r := newRig(t, nil)
		must.Succeed(t, os.Chmod(r.cfg.KubeletDir, 0))
		r.run()
		r.devices.set(port("a"))
		r.expectWarning("permission denied")
		must.Succeed(t, os.Chmod(r.cfg.KubeletDir, 0o755))
		r.awaitList(r.kubelet(simkubelet.Behaviour{}))
	})
}

// expectWarning waits for the warning that kubelet.sock can't be used, and checks its text.
func (r *rig) expectWarning(text string) {
	r.Helper()
	r.awaitEvent("register.failed", 1)
	line := r.lines("register.failed")[0]
	if got := line.ContextMap()["error"].(string); line.Level != zap.WarnLevel || !strings.Contains(got, text) {
		r.Errorf("%v %q, want a warning with %q", line.Level, got, text)
	}
	compare.Equal(r, "kubelet.absent: lines", 0, r.events("kubelet.absent"))
}

// removeAll removes the directory. It removes the kubelet's socket first, because otherwise the server could create a
// new socket in the meantime.
func removeAll(dir string) error {
	if err := os.Remove(filepath.Join(dir, simkubelet.Socket)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func skipRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("permissions do not apply to root")
	}
}
