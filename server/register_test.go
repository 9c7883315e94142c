package server_test

import (
	"os"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

func TestRegisterHangs(t *testing.T) {
	for _, tc := range []struct {
		name string
		// disturb ends the wait, and returns the kubelet that is running afterwards.
		disturb func(*rig, *simkubelet.Kubelet) *simkubelet.Kubelet
		event   string
	}{
		{"the plugin's socket is removed", func(r *rig, k *simkubelet.Kubelet) *simkubelet.Kubelet {
			k.Behave(simkubelet.Behaviour{})
			must.Succeed(r, os.Remove(r.sockets()[0]))
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
			k := r.begin(simkubelet.Behaviour{HangRegister: true}, port("a"))
			must.Succeed(t, k.AwaitRegistrations(r.ctx, resource, 1))
			k = tc.disturb(r, k)
			r.awaitService(k)
			r.awaitEvent(tc.event, 1)
		})
	}
}

func TestKubeletEndsDuringRegister(t *testing.T) {
	r := newRig(t, nil)
	k := r.begin(simkubelet.Behaviour{Vanish: true}, port("a"))
	if err := k.AwaitRegistrations(r.ctx, resource, 1); err != nil {
		t.Log(err) // the kubelet may already have stopped
	}
	r.awaitEvent("register.failed", 1)
	k = r.kubelet(simkubelet.Behaviour{})
	r.awaitService(k)
}

// A registration that the kubelet doesn't complete in time fails and is retried.
func TestRegistrationTimesOut(t *testing.T) {
	for _, tc := range []struct {
		name    string
		kubelet simkubelet.Behaviour
	}{
		{"no answer", simkubelet.Behaviour{HangRegister: true}},
		{"no stream", simkubelet.Behaviour{NoStream: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.RegisterTimeout, c.StreamTimeout = 50*time.Millisecond, 30*time.Millisecond })
			k := r.begin(tc.kubelet, port("a"))
			r.awaitEvent("register.failed", 2)
			k.Behave(simkubelet.Behaviour{})
			r.awaitService(k)
		})
	}
}

// A kubelet up to 1.36 handles the end of a session a few milliseconds after it has closed the connection. If the next
// session already existed by then, its devices would stay unhealthy.
func TestRegisterAgainLater(t *testing.T) {
	cut := func(_ *rig, k *simkubelet.Kubelet) error { k.CutStream(resource); return nil }
	for _, tc := range []struct {
		name  string
		lasts time.Duration // a session that lasted a second has no backoff
		end   func(*rig, *simkubelet.Kubelet) error
	}{
		{"Reregister is called", time.Second, func(r *rig, _ *simkubelet.Kubelet) error { r.Reregister(); return nil }},
		{"the socket is removed", time.Second, func(r *rig, _ *simkubelet.Kubelet) error { return os.Remove(r.socket()) }},
		{"the stream is cut", time.Second, cut},
		{"the stream is cut at once", 0, cut},
		{"the device returns when its resource has been retired", 0, func(r *rig, _ *simkubelet.Kubelet) error {
			r.devices.set()
			r.awaitEvent("resource.retired", 1)
			r.devices.set(port("a"))
			return nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.RetireAfter = time.Millisecond })
			k := r.serving(port("a"))
			patient.Elapse(t, tc.lasts)
			ended := time.Now()
			must.Succeed(t, tc.end(r, k))
			must.Succeed(t, k.AwaitRegistrations(r.ctx, resource, 2))
			if gap := time.Since(ended); gap < 100*time.Millisecond {
				t.Errorf("the next registration came after %v, want at least 100 ms", gap)
			}
			r.awaitReady()
		})
	}
}
