package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// another runs a second server with the same devices, after applying edit, until end is called or the test ends.
func (r *rig) another(edit ...func(*server.Server)) (s *server.Server, end func()) {
	r.Helper()
	s = server.New(r.cfg, r.devices, zap.NewNop())
	for _, edit := range edit {
		edit(s)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		compare.NoError(r, "Run", <-ended)
	})
	r.Cleanup(end)
	return s, end
}

// crashing is a minimal second daemon. It lists one device, and leaves its socket behind as if it had been killed.
type crashing struct {
	v1beta1.UnimplementedDevicePluginServer
	path   string
	server *grpc.Server
	ended  chan error
}

func (*crashing) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

func (*crashing) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	err := stream.Send(&v1beta1.ListAndWatchResponse{Devices: []*v1beta1.Device{{ID: "a", Health: v1beta1.Healthy}}})
	<-stream.Context().Done()
	return err
}

// crashing starts and registers a second daemon, which is stopped at the end of the test.
func (r *rig) crashing(name string) *crashing {
	r.Helper()
	// ConnectionTimeout closes silent connections after this time.
	c := &crashing{
		path:   filepath.Join(r.cfg.KubeletDir, name),
		server: grpc.NewServer(grpc.ConnectionTimeout(50 * time.Millisecond)),
		ended:  make(chan error, 1),
	}
	l := listenUnix(r, c.path)
	l.SetUnlinkOnClose(false)
	v1beta1.RegisterDevicePluginServer(c.server, c)
	go func() { c.ended <- c.server.Serve(l) }()
	r.Cleanup(func() { _ = os.Remove(c.path) })
	r.Cleanup(c.crash)
	kubelet := r.dial(filepath.Join(r.cfg.KubeletDir, simkubelet.Socket))
	patient.Await(r, "registration", func() error { // the kubelet may be slower than the timeout for silent connections
		_, err := v1beta1.NewRegistrationClient(kubelet).Register(r.ctx, &v1beta1.RegisterRequest{
			Version: v1beta1.Version, Endpoint: name, ResourceName: resource,
		})
		return err
	})
	return c
}

func (c *crashing) crash() {
	c.server.Stop()
	if _, first := <-c.ended; first {
		close(c.ended)
	}
}

// awaitAllocation waits until the kubelet's Allocate calls go to this server, which it recognizes by the response.
func (r *rig) awaitAllocation(k *simkubelet.Kubelet) {
	r.Helper()
	patient.Await(r, "Allocate", func() error {
		given, err := k.Allocate(r.ctx, resource, "a")
		if err == nil && given.Envs["ACCELERATOR_UNITS"] != "a" {
			err = fmt.Errorf("found %v, want the answer of this server", given)
		}
		return err
	})
}

// A second daemon starts and exits, as in an upgrade that is rolled back. By then, a kubelet up to 1.36 has dropped the
// first daemon. Newer kubelets always have a list.
func TestPeerGone(t *testing.T) {
	for _, tc := range []struct {
		name    string
		kubelet simkubelet.Behaviour
		gap     bool // there is a time when the kubelet doesn't have a plugin
		end     func(r *rig, k *simkubelet.Kubelet)
	}{
		{"1.36: ended", simkubelet.Behaviour{OnePlugin: true}, true, endSecond},
		{"1.36: killed", simkubelet.Behaviour{OnePlugin: true}, true, killSecond},
		{"1.36: ended at once", simkubelet.Behaviour{OnePlugin: true}, true, missSecond},
		{"1.37: ended", simkubelet.Behaviour{}, false, endSecond},
		{"1.37: killed", simkubelet.Behaviour{}, false, killSecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			k := r.begin(tc.kubelet, port("a"))
			r.awaitService(k)
			gaps := countGaps(k)
			tc.end(r, k)
			r.awaitEvent("registration.ended", 1)
			want := "a daemon that registered later has ended"
			compare.Equal[any](t, "reason of registration.ended", want, r.lines("registration.ended")[0].ContextMap()["reason"])
			if tc.gap {
				// When the first stream ends, the connection to the second daemon is closed once.
				r.awaitEvent("registration.ended", 2)
				compare.Equal(t, "retry_ms of the next registration", 100.0, r.lines("registration.ended")[1].ContextMap()["retry_ms"])
			}
			r.awaitReady()
			r.awaitAllocation(k)
			r.devices.set(port("a"), port("b"))
			r.awaitList(k)
			k.Follow(nil)
			compare.Equal(t, fmt.Sprintf("gaps (%d)", *gaps), tc.gap, *gaps > 0)
		})
	}
}

// countGaps counts how often the kubelet doesn't have a list, until k.Follow(nil) is called.
func countGaps(k *simkubelet.Kubelet) *int {
	gaps := new(int)
	k.Follow(func(open map[string]simkubelet.List) {
		if _, ok := open[resource]; !ok {
			*gaps++
		}
	})
	return gaps
}

// If the kubelet hasn't dropped the first session, that session keeps serving until the next registration has a stream,
// however long that takes.
func TestPeerGoneAndRefused(t *testing.T) {
	r, k := started(t, port("a"))
	gaps := countGaps(k)
	c := r.crashing("accelerator-zzzzzzaaaaaaa.sock")
	patient.Elapse(t, 200*time.Millisecond)
	k.Behave(simkubelet.Behaviour{Refuse: "not now"})
	c.crash()
	r.awaitEvent("register.failed", 2)
	r.devices.set(port("a"), port("b"))
	r.awaitList(k)
	k.Behave(simkubelet.Behaviour{})
	r.awaitReady()
	r.awaitAllocation(k)
	k.Follow(nil)
	compare.Equal(t, "times that there was no list", 0, *gaps)
	_ = os.Remove(c.path)
}

func endSecond(r *rig, k *simkubelet.Kubelet) {
	r.Helper()
	s, end := r.another()
	must.Succeed(r, k.AwaitRegistrations(r.ctx, resource, 2))
	patient.Await(r, "the second server", s.Ready)
	end()
}

// missSecond starts a second daemon and stops it before anything can connect to it.
func missSecond(r *rig, _ *simkubelet.Kubelet) {
	r.Helper()
	c := r.crashing("accelerator-zzzzzzaaaaaaa.sock")
	c.crash()
	must.Succeed(r, os.Remove(c.path))
}

func killSecond(r *rig, _ *simkubelet.Kubelet) {
	r.Helper()
	c := r.crashing("accelerator-zzzzzzaaaaaaa.sock")
	patient.Elapse(r, 200*time.Millisecond)
	compare.Equal(r, "registration.ended while the second daemon runs: lines", 0, r.events("registration.ended"))
	c.crash()
}

// Nothing happens when a daemon that registered earlier than this one exits, as the old daemon does in every upgrade,
// or when another plugin exits.
func TestUnrelatedPeerGone(t *testing.T) {
	for _, tc := range []struct {
		name, socket string
		age          time.Duration
	}{
		{"registered earlier", "accelerator-zzzzzzaaaaaaa.sock", time.Minute},
		{"another plugin", "accelerator-others.sock", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			k := r.kubelet(simkubelet.Behaviour{})
			c := r.crashing(tc.socket)
			made := time.Now().Add(-tc.age)
			must.Succeed(t, os.Chtimes(c.path, made, made))
			r.run()
			r.devices.set(port("a"))
			r.awaitService(k)
			c.crash()
			patient.Elapse(t, 300*time.Millisecond)
			compare.Equal(t, "registrations", 2, k.Registrations(resource))
			r.awaitAllocation(k)
			_ = os.Remove(c.path)
		})
	}
}

// When a daemon exits, it waits only for calls, so a peer's silent connection doesn't delay it.
func TestPeerEndsAtOnce(t *testing.T) {
	r, _ := started(t, port("a"))
	second, end := r.another(func(s *server.Server) { s.SetDrain(time.Hour) })
	patient.Await(t, "the second server", second.Ready)
	end()
}

// A session ends if the kubelet closes the connection before it has opened a stream.
func TestConnectionClosedWithoutStream(t *testing.T) {
	r := newRig(t, nil)
	k := r.begin(simkubelet.Behaviour{HangUp: true}, port("a"))
	r.awaitEvent("registration.ended", 3) // within testTimeout, which is less than StreamTimeout
	k.Behave(simkubelet.Behaviour{})
	r.awaitService(k)
}

// A daemon that registers again while a call is in flight has no socket for drainTimeout plus settle. Its peer must not
// consider it gone.
func TestPeerRegistersAgain(t *testing.T) {
	r, k := started(t, port("a"))
	first := r.socket()
	second, _ := r.another()
	must.Succeed(t, k.AwaitRegistrations(r.ctx, resource, 2))
	path := r.sockets()[0]
	if path == first {
		path = r.sockets()[1]
	}
	must.Value(r.dial(path).NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/v1beta1.DevicePlugin/Allocate"))(t)
	patient.Elapse(t, 50*time.Millisecond)
	second.Reregister()
	must.Succeed(t, k.AwaitRegistrations(r.ctx, resource, 3))
	patient.Elapse(t, 500*time.Millisecond)
	for _, line := range r.lines("registration.ended") {
		t.Errorf("the first daemon registers again, too: %v", line.ContextMap()["reason"])
	}
}
