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

// another runs a second server, after edit, with the same devices until the returned function is called, or the
// test ends.
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

// crashing is a minimal second daemon: it lists one device, and leaves its socket behind like a
// daemon that was killed.
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

// crashing starts and registers a second daemon. It ends at the end of the test.
func (r *rig) crashing(name string) *crashing {
	r.Helper()
	// ConnectionTimeout closes each silent connection after this time.
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
	patient.Await(r, "registration", func() error { // the kubelet may be slower than the timeout of a silent connection
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

// awaitAllocation blocks until the kubelet calls Allocate of this server, which it recognizes by
// the answer.
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

// A second daemon starts and ends, as in an upgrade that is rolled back. A kubelet up to 1.36 has
// dropped the first one then; every kubelet has a list all the time.
func TestPeerGone(t *testing.T) {
	for _, tc := range []struct {
		name    string
		kubelet simkubelet.Behaviour
		gap     bool // the kubelet has no plugin for a while
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
				// The end of the first stream closes the connection to the second daemon, once.
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

// countGaps counts how often the kubelet has no list, until k.Follow(nil).
func countGaps(k *simkubelet.Kubelet) *int {
	gaps := new(int)
	k.Follow(func(open map[string]simkubelet.List) {
		if _, ok := open[resource]; !ok {
			*gaps++
		}
	})
	return gaps
}

// If the kubelet has not dropped the first session, the session keeps serving until the next
// registration has a stream, regardless of how long that takes.
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

// missSecond starts a second daemon and ends it before a connection to it is possible.
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

// The end of a daemon that registered earlier than this one has no effect. (In each upgrade the old daemon ends.) The
// end of another plugin has no effect either.
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

// A silent connection of a peer does not delay the end of a daemon, which waits for calls only.
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

// A daemon that registers again while a call is in flight has no socket for drainTimeout and settle. Its peer must not
// count it as gone.
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
