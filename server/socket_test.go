package server_test

import (
	"net"
	"os"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/server"
)

func TestSocketPathsAreNeverUsedAgain(t *testing.T) {
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
	if n := k.Registrations(resource); n != 6 {
		t.Errorf("%d registrations after 5 requests for another, want 6", n)
	}
}

func TestSocketLost(t *testing.T) {
	r := newRig(t, nil)
	k := r.kubelet(simkubelet.Behaviour{})
	r.run()
	r.devices.set(port("a"))
	r.awaitList(k)
	r.awaitReady()
	lost := r.socket()
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	r.awaitEvent("resource.registered", 2)
	if r.socket() == lost {
		t.Errorf("registered on the lost path again")
	}
	r.awaitReady()
	if n := r.events("socket.lost"); n != 1 {
		t.Errorf("socket.lost was logged %d times", n)
	}
}

// A program that deletes our socket as soon as it is made causes no storm of registrations.
func TestSocketLostAgainAndAgain(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.BackoffMin, c.BackoffMax = 50*time.Millisecond, time.Hour })
	k := r.kubelet(simkubelet.Behaviour{})
	r.run()
	r.devices.set(port("a"))
	again := time.NewTicker(200 * time.Microsecond)
	defer again.Stop()
	for began := time.Now(); time.Since(began) < time.Second; <-again.C {
		for _, path := range r.sockets() {
			_ = os.Remove(path) // the server may have done so first
		}
	}
	r.awaitEvent("socket.lost", 2)
	// The waits are 25 ms at least, then 50, 100, 200 and 400.
	if n := k.Registrations(resource); n > 7 {
		t.Errorf("%d registrations in a second, want a few", n)
	}
	if n := r.events("socket.lost"); n > 7 {
		t.Errorf("socket.lost was logged %d times in a second, want a few", n)
	}
	r.Reregister() // ends the wait
	r.awaitReady()
}

// A session that has lived for a while is followed by the next at once.
func TestLostLate(t *testing.T) {
	for _, tc := range []struct {
		name string
		lose func(*rig, *simkubelet.Kubelet) error
	}{
		{"socket", func(r *rig, _ *simkubelet.Kubelet) error { return os.Remove(r.socket()) }},
		{"stream", func(_ *rig, k *simkubelet.Kubelet) error { k.CutStream(resource); return nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *server.Config) { c.BackoffMin, c.BackoffMax = time.Hour, time.Hour })
			k := r.kubelet(simkubelet.Behaviour{})
			r.run()
			r.devices.set(port("a"))
			r.awaitList(k)
			r.awaitReady()
			<-time.After(time.Second)
			if err := tc.lose(r, k); err != nil {
				t.Fatal(err)
			}
			r.awaitEvent("resource.registered", 2)
			r.awaitReady()
		})
	}
}

// A client that begins to speak and stalls does not hold up the end of a session, although grpc
// waits for the rest of its first message.
func TestStalledClient(t *testing.T) {
	r, _ := started(t, port("a"))
	conn, err := net.Dial("unix", r.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PRI")); err != nil {
		t.Fatal(err)
	}
	<-time.After(50 * time.Millisecond) // until it has been read
	if took := r.stop(); took > 2*time.Second {
		t.Errorf("stopping took %v", took)
	}
}
