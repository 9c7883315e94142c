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

	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/server"
)

func listenUnix(t testing.TB, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKubeletComesLater(t *testing.T) {
	r := newRig(t, nil)
	if err := os.Remove(r.cfg.KubeletDir); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("kubelet.absent", 1)
	if err := os.Mkdir(r.cfg.KubeletDir, 0o755); err != nil {
		t.Fatal(err)
	}
	k := r.kubelet(simkubelet.Behaviour{})
	r.awaitList(k)
	r.awaitReady()
	if n := r.events("kubelet.absent"); n != 1 {
		t.Errorf("its absence was logged %d times", n)
	}
	if n := k.Registrations(resource); n != 1 {
		t.Errorf("%d registrations, want 1", n)
	}
}

// A kubelet deletes our socket and makes a new kubelet.sock: both are reasons to
// register again, and only one registration may come of it.
func TestKubeletRestartsRegisterOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*simkubelet.Kubelet)
	}{
		{"stopped", (*simkubelet.Kubelet).Stop},
		{"killed", (*simkubelet.Kubelet).Kill},
		{"overlapping", nil}, // the new one is there before the old one is gone
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.PollInterval = time.Hour }) // inotify alone must do
			r.run()
			k := r.kubelet(simkubelet.Behaviour{})
			for i := range 20 {
				r.devices.set(port("a"), port(fmt.Sprintf("b%02d", i)))
				r.awaitList(k)
				r.awaitReady()
				// A list over the stream that is there: no other is needed.
				r.devices.set(port("a"))
				r.awaitList(k)
				if n := k.Registrations(resource); n != 1 {
					t.Fatalf("%d registrations with kubelet %d, want 1", n, i)
				}
				old := k
				if tc.end != nil {
					tc.end(old)
					// An old kubelet that still lives would be asked once more, in the
					// moment when only our socket is deleted yet.
					if n := old.Registrations(resource); n != 1 {
						t.Fatalf("%d registrations with kubelet %d at its end, want 1", n, i)
					}
				}
				k = r.kubelet(simkubelet.Behaviour{})
				if tc.end == nil {
					r.awaitList(k)
					old.Kill()
				}
			}
			r.awaitList(k)
			r.awaitReady()
			if n := k.Registrations(resource); n != 1 {
				t.Errorf("%d registrations with the last kubelet, want 1", n)
			}
			if n := r.events("register.failed"); tc.end != nil && n > 0 {
				t.Errorf("%d registrations failed", n)
			}
			if n := r.events("kubelet.restarted"); n != 20 {
				t.Errorf("%d restarts in the log, want 20", n)
			}
		})
	}
}

func TestStreamCut(t *testing.T) {
	r := newRig(t, nil)
	k := r.kubelet(simkubelet.Behaviour{})
	r.run()
	r.devices.set(port("a"))
	for i := range 3 {
		r.awaitEvent("resource.registered", i+1)
		r.awaitReady()
		k.CutStream(resource)
	}
	r.awaitEvent("resource.registered", 4)
	r.awaitReady()
	r.devices.set(port("b"))
	r.awaitList(k)
}

func TestRegisterRefused(t *testing.T) {
	r := newRig(t, nil)
	k := r.kubelet(simkubelet.Behaviour{Refuse: "no"})
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("register.failed", 5)
	k.Behave(simkubelet.Behaviour{})
	r.awaitList(k)
	r.awaitReady()
}

// A new kubelet.sock is reason enough, also where our socket is spared.
func TestKubeletSocketReplaced(t *testing.T) {
	for _, tc := range []struct {
		name      string
		behaviour simkubelet.Behaviour // of the kubelet before
		abandoned int
	}{
		{"with a stream open", simkubelet.Behaviour{}, 0},
		{"in the middle of Register", simkubelet.Behaviour{HangRegister: true}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			k := r.kubelet(tc.behaviour)
			r.run()
			r.devices.set(port("a"))
			if err := k.AwaitRegistrations(r.ctx, resource, 1); err != nil {
				t.Fatal(err)
			}
			if tc.behaviour == (simkubelet.Behaviour{}) {
				r.awaitReady()
			}
			// It is born elsewhere, so that it deletes nothing here.
			elsewhere := filepath.Join(filepath.Dir(r.cfg.KubeletDir), "e")
			other, err := simkubelet.Start(context.WithoutCancel(r.ctx), elsewhere, simkubelet.Behaviour{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(other.Stop)
			if err := os.Rename(filepath.Join(elsewhere, simkubelet.Socket), filepath.Join(r.cfg.KubeletDir, simkubelet.Socket)); err != nil {
				t.Fatal(err)
			}
			if err := other.AwaitRegistrations(r.ctx, resource, 1); err != nil {
				t.Fatal(err)
			}
			r.awaitEvent("kubelet.restarted", 1)
			if n := r.events("register.abandoned"); n != tc.abandoned {
				t.Errorf("%d abandoned, want %d", n, tc.abandoned)
			}
		})
	}
}

// A backoff is not waited out when there is news.
func TestBackoffEndsEarly(t *testing.T) {
	for _, tc := range []struct {
		name string
		news func(*rig, *simkubelet.Kubelet) *simkubelet.Kubelet // returns the kubelet that is there then
	}{
		{"kubelet restarted", func(r *rig, k *simkubelet.Kubelet) *simkubelet.Kubelet {
			k.Stop()
			return r.kubelet(simkubelet.Behaviour{})
		}},
		{"asked to register again", func(r *rig, k *simkubelet.Kubelet) *simkubelet.Kubelet {
			k.Behave(simkubelet.Behaviour{})
			r.Reregister()
			return k
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.BackoffMin, c.BackoffMax = time.Hour, time.Hour })
			k := r.kubelet(simkubelet.Behaviour{Refuse: "no"})
			r.run()
			r.devices.set(port("a"))
			r.awaitEvent("register.failed", 1)
			k = tc.news(r, k)
			r.awaitList(k)
			r.awaitReady()
		})
	}
}

// A kubelet takes a while from bind to listen; its socket refuses until then.
func TestKubeletDoesNotListenYet(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.BackoffMin, c.BackoffMax = time.Hour, time.Hour })
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), simkubelet.Socket)
	defer file.Close()
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(r.cfg.KubeletDir, simkubelet.Socket)}); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.devices.set(port("a"))
	<-time.After(50 * time.Millisecond) // the kubelet's while
	if err := syscall.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_ = l.(*net.UnixListener).SetDeadline(time.Now().Add(patience))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if n := r.events("kubelet.absent"); n > 0 {
		t.Errorf("the kubelet was called absent %d times", n)
	}
}

// A call of Reregister without a kubelet causes no registration in addition to the next one.
func TestReregisterWithoutKubelet(t *testing.T) {
	r := newRig(t, nil)
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("kubelet.absent", 1)
	r.Reregister()
	k := r.kubelet(simkubelet.Behaviour{})
	r.awaitList(k)
	r.awaitReady()
	r.devices.set(port("b"))
	r.awaitList(k)
	if n := k.Registrations(resource); n != 1 {
		t.Errorf("%d registrations, want 1", n)
	}
}
