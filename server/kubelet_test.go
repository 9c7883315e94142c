package server_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

func listenUnix(t testing.TB, path string) *net.UnixListener {
	t.Helper()
	return must.Value(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
}

// When a kubelet restarts, it deletes the plugin's socket and creates a new kubelet.sock. Each would be a reason to
// register again, but together they must cause only one registration.
func TestKubeletRestartsRegisterOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*simkubelet.Kubelet)
	}{
		{"stopped", (*simkubelet.Kubelet).Stop},
		{"killed", (*simkubelet.Kubelet).Kill},
		{"overlapping", nil}, // the new kubelet starts before the old one exits
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.PollInterval = time.Hour }) // changes are found only by inotify
			r.run()
			k := r.kubelet(simkubelet.Behaviour{})
			for i := range 20 {
				r.devices.set(port("a"), port(fmt.Sprintf("b%02d", i)))
				r.awaitService(k)
				// A list on the existing stream doesn't need another registration.
				r.devices.set(port("a"))
				r.awaitList(k)
				if n := k.Registrations(resource); n != 1 {
					t.Fatalf("found %d registrations with kubelet %d, want 1", n, i)
				}
				old := k
				if tc.end != nil {
					tc.end(old)
					// If the old kubelet were still running, the plugin would register with it again when its socket is
					// deleted.
					if n := old.Registrations(resource); n != 1 {
						t.Fatalf("found %d registrations with kubelet %d at its end, want 1", n, i)
					}
				}
				k = r.kubelet(simkubelet.Behaviour{})
				if tc.end == nil {
					r.awaitList(k)
					old.Kill()
				}
			}
			r.awaitService(k)
			compare.Equal(t, "registrations with the last kubelet", 1, k.Registrations(resource))
			if n := r.events("register.failed"); tc.end != nil && n > 0 {
				t.Errorf("register.failed: found %d lines, want none", n)
			}
			compare.Equal(t, "kubelet.restarted: lines", 20, r.events("kubelet.restarted"))
		})
	}
}

// A new kubelet.sock causes a registration even if the plugin's socket isn't deleted.
func TestKubeletSocketReplaced(t *testing.T) {
	for _, tc := range []struct {
		name      string
		behaviour simkubelet.Behaviour // the old kubelet's
		abandoned int
	}{
		{"with a stream open", simkubelet.Behaviour{}, 0},
		{"in the middle of Register", simkubelet.Behaviour{HangRegister: true}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			k := r.begin(tc.behaviour, port("a"))
			must.Succeed(t, k.AwaitRegistrations(r.ctx, resource, 1))
			if tc.behaviour == (simkubelet.Behaviour{}) {
				r.awaitReady()
			}
			// The new kubelet starts in another directory, so that it doesn't delete any sockets here.
			elsewhere := filepath.Join(filepath.Dir(r.cfg.KubeletDir), "e")
			other := must.Value(simkubelet.Start(context.WithoutCancel(r.ctx), elsewhere, simkubelet.Behaviour{}))(t)
			t.Cleanup(other.Stop)
			must.Succeed(t, os.Rename(filepath.Join(elsewhere, simkubelet.Socket), filepath.Join(r.cfg.KubeletDir, simkubelet.Socket)))
			must.Succeed(t, other.AwaitRegistrations(r.ctx, resource, 1))
			r.awaitEvent("kubelet.restarted", 1)
			compare.Equal(t, "register.abandoned: lines", tc.abandoned, r.events("register.abandoned"))
		})
	}
}

// A backoff ends early if the kubelet restarts or Reregister is called.
func TestBackoffEndsEarly(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  func(*rig, *simkubelet.Kubelet) *simkubelet.Kubelet // returns the kubelet that is running afterwards
	}{
		{"kubelet restarted", func(r *rig, k *simkubelet.Kubelet) *simkubelet.Kubelet {
			k.Stop()
			return r.kubelet(simkubelet.Behaviour{})
		}},
		{"Reregister is called", func(r *rig, k *simkubelet.Kubelet) *simkubelet.Kubelet {
			k.Behave(simkubelet.Behaviour{})
			r.Reregister()
			return k
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.BackoffMin, c.BackoffMax = time.Hour, time.Hour })
			k := r.begin(simkubelet.Behaviour{Refuse: "no"}, port("a"))
			r.awaitEvent("register.failed", 1)
			k = tc.act(r, k)
			r.awaitService(k)
		})
	}
}

// Between bind and listen, a kubelet's socket refuses connections.
func TestKubeletBetweenBindAndListen(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.BackoffMin, c.BackoffMax = time.Hour, time.Hour })
	fd := must.Value(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0))(t)
	file := os.NewFile(uintptr(fd), simkubelet.Socket)
	defer file.Close()
	must.Succeed(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(r.cfg.KubeletDir, simkubelet.Socket)}))
	r.run()
	r.devices.set(port("a"))
	patient.Elapse(t, 50*time.Millisecond) // the time between bind and listen
	must.Succeed(t, syscall.Listen(fd, 1))
	l := must.Value(net.FileListener(file))(t)
	defer l.Close()
	_ = l.(*net.UnixListener).SetDeadline(time.Now().Add(testTimeout))
	conn := must.Value(l.Accept())(t)
	_ = conn.Close()
	compare.Equal(t, "kubelet.absent: lines", 0, r.events("kubelet.absent"))
}

// Calling Reregister while there is no kubelet doesn't cause an extra registration later.
func TestReregisterWithoutKubelet(t *testing.T) {
	r := newRig(t, nil)
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("kubelet.absent", 1)
	r.Reregister()
	k := r.kubelet(simkubelet.Behaviour{})
	r.awaitService(k)
	r.devices.set(port("b"))
	r.awaitList(k)
	compare.Equal(t, "registrations", 1, k.Registrations(resource))
}

// A killed kubelet leaves behind a socket that refuses all connections, which means that there is no kubelet.
func TestSocketOfKilledKubelet(t *testing.T) {
	r := newRig(t, nil)
	path := filepath.Join(r.cfg.KubeletDir, simkubelet.Socket)
	l := listenUnix(t, path)
	l.SetUnlinkOnClose(false)
	old := time.Now().Add(-time.Minute)
	must.Succeed(t, l.Close(), os.Chtimes(path, old, old))
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("kubelet.absent", 1)
	r.awaitList(r.kubelet(simkubelet.Behaviour{}))
}
