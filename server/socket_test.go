package server_test

import (
	"net"
	"os"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

func TestSocketPathsUnique(t *testing.T) {
	r := newRig(t, nil)
	r.run()
	k := r.kubelet(simkubelet.Behaviour{})
	r.devices.set(port("a"))
	seen := map[string]bool{}
	for i := range 5 {
		r.awaitEvent("resource.registered", i+1)
		r.awaitReady()
		path := r.socket()
		if seen[path] {
			t.Fatalf("%s was used before", path)
		}
		seen[path] = true
		if got := r.sockets(); len(got) != 1 || got[0] != path {
			t.Fatalf("sockets %v, want %s alone", got, path)
		}
		r.Reregister()
	}
	r.awaitEvent("resource.registered", 6)
	compare.Equal(t, "registrations after 5 calls of Reregister", 6, k.Registrations(resource))
}

// A program that deletes the socket as soon as it is created doesn't cause a storm of registrations.
func TestSocketLostRepeatedly(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.BackoffMin, c.BackoffMax = 50*time.Millisecond, time.Hour })
	k := r.begin(simkubelet.Behaviour{}, port("a"))
	again := time.NewTicker(200 * time.Microsecond)
	defer again.Stop()
	for began := time.Now(); time.Since(began) < time.Second; <-again.C {
		for _, path := range r.sockets() {
			_ = os.Remove(path) // the server may have been faster
		}
	}
	r.awaitEvent("socket.lost", 2)
	// The first wait is at least 25 ms, and the next ones 50, 100, 200 and 400.
	if n := k.Registrations(resource); n > 7 {
		t.Errorf("found %d registrations in a second, want at most 7", n)
	}
	if n := r.events("socket.lost"); n > 7 {
		t.Errorf("socket.lost: found %d lines in a second, want at most 7", n)
	}
	r.Reregister() // ends the wait
	r.awaitReady()
}

// After a session that lasted at least steadyAfter, the next one starts without a backoff.
func TestLostAfterSteady(t *testing.T) {
	for _, tc := range []struct {
		name string
		lose func(*rig, *simkubelet.Kubelet) error
	}{
		{"socket", func(r *rig, _ *simkubelet.Kubelet) error { return os.Remove(r.socket()) }},
		{"stream", func(_ *rig, k *simkubelet.Kubelet) error { k.CutStream(resource); return nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.BackoffMin, c.BackoffMax = time.Hour, time.Hour })
			k := r.serving(port("a"))
			patient.Elapse(t, time.Second)
			must.Succeed(t, tc.lose(r, k))
			r.awaitEvent("resource.registered", 2)
			r.awaitReady()
		})
	}
}

// A client that sends the beginning of a message and then stalls doesn't delay the end of a session, even though grpc
// waits for the rest of the message.
func TestStalledClient(t *testing.T) {
	r, _ := started(t, port("a"))
	conn := must.Value(net.Dial("unix", r.socket()))(t)
	defer conn.Close()
	must.Value(conn.Write([]byte("PRI")))(t)
	patient.Elapse(t, 50*time.Millisecond) // until the server has read it
	r.stop()
}
