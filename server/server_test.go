package server_test

import (
	"fmt"
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
	"b-com.com/accelerator-device-plugin/test/patient"
)

func TestNoDevices(t *testing.T) {
	r := newRig(t, nil)
	k := r.kubelet(simkubelet.Behaviour{})
	compare.Error(t, "Ready before the start", "", r.Ready())
	r.run()
	compare.Equal(t, "Ready before the first scan", "the first scan has not ended yet", fmt.Sprint(r.Ready()))
	r.devices.set()
	patient.Await(r, "without devices", r.Ready)
	compare.Equal(t, "registrations without devices", 0, k.Registrations(resource))
	r.devices.set(port("a"))
	r.awaitList(k)
	compare.Equal(t, "number of the list", 1, k.Newest(resource).Number)
}

func TestReadyReasons(t *testing.T) {
	r := newRig(t, nil)
	r.run()
	r.devices.set(port("a"))
	r.awaitEvent("kubelet.absent", 1)
	compare.Error(t, "Ready without a kubelet", resource+": there is no kubelet: ", r.Ready())
	k := r.kubelet(simkubelet.Behaviour{Refuse: "test refusal"})
	r.await("the refusal", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), resource+": register with the kubelet: ") && strings.Contains(err.Error(), "test refusal")
	})
	k.Behave(simkubelet.Behaviour{NoStream: true})
	r.awaitEvent("resource.registered", 1)
	compare.Equal(t, "Ready without a stream", resource+": the kubelet has opened no stream", fmt.Sprint(r.Ready()))
}

func TestRetire(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.RetireAfter = 100 * time.Millisecond })
	k := r.serving(port("a"))
	// The device returns in time, so the same stream is used.
	left := time.Now()
	r.devices.set()
	compare.Equal(t, "number of the empty list", 2, r.awaitList(k).Number)
	compare.NoError(t, "Ready with an empty list", r.Ready())
	r.devices.set(port("a"))
	r.awaitList(k)
	inTime := time.Since(left) < r.cfg.RetireAfter // true unless the machine is very busy
	for time.Since(left) < 3*r.cfg.RetireAfter {
		r.devices.set(port("b"))
		r.awaitList(k)
		r.devices.set(port("a"))
		r.awaitList(k)
	}
	before, retired := k.Registrations(resource), r.events("resource.retired")
	if inTime && before != 1 {
		t.Errorf("found %d registrations after a short absence, want 1", before)
	}
	// The device doesn't return in time.
	r.devices.set()
	r.awaitEvent("resource.retired", retired+1)
	compare.Empty(t, "sockets of a retired resource", r.sockets())
	r.devices.set(port("b"))
	r.awaitList(k)
	compare.Equal(t, "registrations after a long absence", before+1, k.Registrations(resource))
}

// A resource from an earlier generation is retired as soon as it is empty. If the new generation uses it too, it is
// retired after RetireAfter like any other.
func TestRetireAfterGeneration(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.RetireAfter = time.Hour })
	k := r.begin(simkubelet.Behaviour{}, port("a"), port("b"), as(otherResource, port("c")))
	r.awaitDevices(k, resource, 2)
	r.awaitDevices(k, otherResource, 1)
	r.devices.generation = 1
	r.devices.set(sick("a", "moving"), as(otherResource, port("b")), as(otherResource, port("c")))
	r.awaitDevices(k, otherResource, 2)
	r.awaitDevices(k, resource, 1)
	r.devices.set(as(otherResource, port("a")), as(otherResource, port("b")), as(otherResource, port("c")))
	r.awaitDevices(k, resource, 0)
	r.awaitEvent("resource.retired", 1)
	r.devices.set()
	r.awaitDevices(k, otherResource, 0)
	r.awaitReady()
	if n := len(r.sockets()); n != 1 || r.events("resource.retired") != 1 {
		t.Errorf("%d sockets, retired %d times; want the socket of the resource that is still used, and 1", n, r.events("resource.retired"))
	}
}

func TestLeftovers(t *testing.T) {
	r := newRig(t, nil)
	dead := filepath.Join(r.cfg.KubeletDir, "accelerator-dead.sock")
	foreign := filepath.Join(r.cfg.KubeletDir, "other-dead.sock")
	for _, path := range []string{dead, foreign} {
		l := listenUnix(t, path)
		l.SetUnlinkOnClose(false)
		_ = l.Close()
	}
	peer := filepath.Join(r.cfg.KubeletDir, "accelerator-peer.sock")
	defer listenUnix(t, peer).Close()
	defer listenUnix(t, filepath.Join(r.cfg.KubeletDir, "accelerator-peer2.sock")).Close()
	plain := filepath.Join(r.cfg.KubeletDir, "accelerator-notes.sock")
	must.Succeed(t, os.WriteFile(plain, nil, 0o600))
	r.run()
	r.awaitEvent("socket.removed", 1)
	r.awaitEvent("socket.twin", 1)
	lines := r.lines("socket.twin")
	if line := lines[0]; len(lines) != 1 || line.Level != zap.WarnLevel || !strings.Contains(line.ContextMap()["socket"].(string), "accelerator-peer") {
		t.Errorf("found %d lines about a peer, the first %v %v; want one warning with its socket", len(lines), line.Level, line.ContextMap())
	}
	for path, want := range map[string]bool{dead: false, foreign: true, peer: true, plain: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it to exist: %t", path, err, want)
		}
	}
	_ = os.Remove(peer)
	_ = os.Remove(filepath.Join(r.cfg.KubeletDir, "accelerator-peer2.sock"))
	_ = os.Remove(plain)
}
