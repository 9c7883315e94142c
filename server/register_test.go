package server_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

func TestRegisterHangs(t *testing.T) {
	for _, tc := range []struct {
		name string
		// disturb ends the wait, and returns the kubelet that runs then.
		disturb func(*rig, *simkubelet.Kubelet) *simkubelet.Kubelet
		event   string
	}{
		{"the plugin's socket is removed", func(r *rig, k *simkubelet.Kubelet) *simkubelet.Kubelet {
			k.Behave(simkubelet.Behaviour{})
			if err := os.Remove(r.sockets()[0]); err != nil {
				r.Fatal(err)
			}
			return k
		}, "register.abandoned"},
		{"the kubelet is replaced", func(r *rig, _ *simkubelet.Kubelet) *simkubelet.Kubelet {
			return r.kubelet(simkubelet.Behaviour{})
		}, "register.abandoned"},
		{"Reregister is called", func(r *rig, k *simkubelet.Kubelet) *simkubelet.Kubelet {
			k.Behave(simkubelet.Behaviour{})
			r.Reregister()
			return k
		}, "register.abandoned"},
		{"the kubelet dies", func(r *rig, k *simkubelet.Kubelet) *simkubelet.Kubelet {
			k.Kill()
			return r.kubelet(simkubelet.Behaviour{})
		}, "resource.served"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			k := r.kubelet(simkubelet.Behaviour{HangRegister: true})
			r.run()
			r.devices.set(port("a"))
			if err := k.AwaitRegistrations(r.ctx, resource, 1); err != nil {
				t.Fatal(err)
			}
			k = tc.disturb(r, k)
			r.awaitList(k)
			r.awaitReady()
			r.awaitEvent(tc.event, 1)
		})
	}
}

func TestKubeletEndsDuringRegister(t *testing.T) {
	r := newRig(t, nil)
	k := r.kubelet(simkubelet.Behaviour{Vanish: true})
	r.run()
	r.devices.set(port("a"))
	if err := k.AwaitRegistrations(r.ctx, resource, 1); err != nil {
		t.Log(err) // the kubelet may have ended already
	}
	r.awaitEvent("register.failed", 1)
	k = r.kubelet(simkubelet.Behaviour{})
	r.awaitList(k)
	r.awaitReady()
}

func TestRegisterTimesOut(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.RegisterTimeout = 50 * time.Millisecond })
	k := r.kubelet(simkubelet.Behaviour{HangRegister: true})
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("register.failed", 2)
	k.Behave(simkubelet.Behaviour{})
	r.awaitList(k)
	r.awaitReady()
}

func TestNoStream(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.StreamTimeout = 30 * time.Millisecond })
	k := r.kubelet(simkubelet.Behaviour{NoStream: true})
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("register.failed", 2)
	if n := k.Registrations(resource); n < 2 {
		t.Errorf("found %d registrations, want at least 2", n)
	}
	k.Behave(simkubelet.Behaviour{})
	r.awaitList(k)
	r.awaitReady()
}

func TestOtherServerOnKubeletSocket(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer string
		close  bool
	}{
		{"garbage", "HTTP/1.1 400 go away\r\n\r\n\x00\xff\xfe", true},
		{"much garbage", strings.Repeat("\xff\x00rubbish", 10000), false},
		{"no data", "", false},
		{"closed connection", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.RegisterTimeout = 200 * time.Millisecond })
			l := listenUnix(t, filepath.Join(r.cfg.KubeletDir, simkubelet.Socket))
			done := make(chan struct{})
			var conns []net.Conn
			go func() {
				defer close(done)
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					conns = append(conns, conn)
					_, _ = conn.Write([]byte(tc.answer))
					if tc.close {
						_ = conn.Close()
					}
				}
			}()
			r.run()
			r.devices.set(port("a"))
			r.awaitEvent("register.failed", 2)
			for _, line := range r.lines("register.failed") {
				if text := line.ContextMap()["error"].(string); len(text) > 500 {
					t.Errorf("error of %d bytes: %s", len(text), text)
				}
			}
			_ = l.Close()
			<-done
			for _, conn := range conns {
				_ = conn.Close()
			}
			k := r.kubelet(simkubelet.Behaviour{})
			r.awaitList(k)
			r.awaitReady()
		})
	}
}
