package simkubelet_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

const resource = "b-com.com/accelerator"

// plugin is a minimal device plugin. It sends the lists of a channel.
type plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	lists chan *v1beta1.ListAndWatchResponse
	ended chan error // an entry for each stream that has ended
}

func (p *plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	for {
		select {
		case <-stream.Context().Done():
			p.ended <- stream.Context().Err()
			return nil
		case list := <-p.lists:
			if err := stream.Send(list); err != nil {
				return err
			}
		}
	}
}

func (p *plugin) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	ids := strings.Join(r.ContainerRequests[0].DevicesIds, ",")
	return &v1beta1.AllocateResponse{ContainerResponses: []*v1beta1.ContainerAllocateResponse{{Envs: map[string]string{"IDS": ids}}}}, nil
}

// directory creates a directory whose path is short enough for sockets.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "adp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func start(t *testing.T, dir string, b simkubelet.Behaviour) *simkubelet.Kubelet {
	t.Helper()
	k, err := simkubelet.Start(context.WithoutCancel(t.Context()), dir, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	return k
}

// serve serves a plugin on a socket in the directory.
func serve(t *testing.T, dir, name string) *plugin {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	p := &plugin{lists: make(chan *v1beta1.ListAndWatchResponse), ended: make(chan error, 10)}
	s := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(s, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return p
}

// register registers as a plugin does.
func register(t *testing.T, dir string, r *v1beta1.RegisterRequest) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, simkubelet.Socket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, r)
	return err
}

// good returns a valid request.
func good(endpoint string) *v1beta1.RegisterRequest {
	return &v1beta1.RegisterRequest{Version: v1beta1.Version, Endpoint: endpoint, ResourceName: resource}
}

func TestPluginLife(t *testing.T) {
	dir := directory(t)
	k := start(t, dir, simkubelet.Behaviour{})
	p := serve(t, dir, "p.sock")
	if err := register(t, dir, good("p.sock")); err != nil {
		t.Fatal(err)
	}
	p.lists <- &v1beta1.ListAndWatchResponse{}
	p.lists <- &v1beta1.ListAndWatchResponse{Devices: []*v1beta1.Device{
		{ID: "a", Health: "Healthy", Topology: &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: 1}}}},
		{ID: "b", Health: "Unhealthy"},
	}}
	list, err := k.AwaitList(t.Context(), resource, func(l simkubelet.List) bool { return l.Number == 2 })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]simkubelet.Device{{ID: "a", Healthy: true, NUMANode: 1}, {ID: "b", NUMANode: -1}}, list.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if d, ok := k.Newest(resource).Device("b"); !ok || d.Healthy {
		t.Errorf("device b: %v, %t", d, ok)
	}
	got, err := k.Allocate(t.Context(), resource, "a", "b")
	if err != nil || got.Envs["IDS"] != "a,b" {
		t.Errorf("allocation: %v, %v", got, err)
	}
	k.CutStream(resource)
	<-p.ended
	if err := k.AwaitRegistrations(t.Context(), resource, 1); err != nil || k.Registrations(resource) != 1 {
		t.Errorf("%d registrations, error %v, want 1", k.Registrations(resource), err)
	}
	k.Stop()
	if _, err := k.Plugin(resource); err == nil {
		t.Errorf("Plugin returned a plugin after Stop, want an error")
	}
	if _, err := k.AwaitList(t.Context(), "other", func(simkubelet.List) bool { return true }); err == nil || !strings.Contains(err.Error(), "the kubelet has stopped") {
		t.Errorf("AwaitList after Stop: error %v", err)
	}
}

// Of two plugins of a resource the newest is called. When it ends, the other one is called. Kubelets
// up to 1.36 then call no plugin, but still read the lists of the other one.
func TestTwoPlugins(t *testing.T) {
	for _, tc := range []struct {
		name      string
		behaviour simkubelet.Behaviour
		left      bool
	}{
		{"1.37", simkubelet.Behaviour{}, true},
		{"1.36", simkubelet.Behaviour{OnePlugin: true}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := directory(t)
			k := start(t, dir, tc.behaviour)
			first, second := serve(t, dir, "1.sock"), serve(t, dir, "2.sock")
			for _, name := range []string{"1.sock", "2.sock"} {
				if err := register(t, dir, good(name)); err != nil {
					t.Fatal(err)
				}
			}
			second.lists <- &v1beta1.ListAndWatchResponse{}
			if _, err := k.AwaitList(t.Context(), resource, func(l simkubelet.List) bool { return l.Number == 1 }); err != nil {
				t.Fatal(err)
			}
			newest, err := k.Plugin(resource)
			if err != nil {
				t.Fatal(err)
			}
			k.CutStream(resource)
			<-second.ended
			left := newest
			for left == newest {
				left, err = k.Plugin(resource)
			}
			if (err == nil) != tc.left {
				t.Errorf("Plugin: error %v, want a plugin: %t", err, tc.left)
			}
			first.lists <- &v1beta1.ListAndWatchResponse{Devices: []*v1beta1.Device{{ID: "a", Health: "Healthy"}}}
			if _, err := k.AwaitList(t.Context(), resource, func(l simkubelet.List) bool { return l.Number == 2 }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRegisterFails(t *testing.T) {
	for _, tc := range []struct {
		name      string
		behaviour simkubelet.Behaviour
		request   *v1beta1.RegisterRequest
		want      string
	}{
		{"refused", simkubelet.Behaviour{Refuse: "not today"}, good("p.sock"), "not today"},
		{"hangs", simkubelet.Behaviour{HangRegister: true}, good("p.sock"), "DeadlineExceeded"},
		{"vanishes", simkubelet.Behaviour{Vanish: true}, good("p.sock"), "Unavailable"},
		{"version", simkubelet.Behaviour{}, &v1beta1.RegisterRequest{Version: "v1", Endpoint: "p.sock", ResourceName: resource}, `version "v1"`},
		{"no listener", simkubelet.Behaviour{}, good("q.sock"), `endpoint "q.sock"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := directory(t)
			k := start(t, dir, tc.behaviour)
			serve(t, dir, "p.sock")
			if err := register(t, dir, tc.request); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if n := k.Registrations(resource); n != 1 {
				t.Errorf("%d registrations, want 1", n)
			}
		})
	}
}

func TestStartDeletesSocketsOnly(t *testing.T) {
	dir := directory(t)
	if err := os.WriteFile(filepath.Join(dir, "checkpoint"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, dir, simkubelet.Behaviour{}).Kill()
	serve(t, dir, "p.sock")
	if _, err := os.Lstat(filepath.Join(dir, simkubelet.Socket)); err != nil {
		t.Errorf("socket of a killed kubelet: %v, want it to exist", err)
	}
	k := start(t, dir, simkubelet.Behaviour{})
	if got := names(t, dir); !cmp.Equal(got, []string{"checkpoint", simkubelet.Socket}) {
		t.Errorf("directory after the start: %v", got)
	}
	k.Stop()
	k.Stop()
	if got := names(t, dir); !cmp.Equal(got, []string{"checkpoint"}) {
		t.Errorf("directory after the end: %v", got)
	}
}

func TestStartFails(t *testing.T) {
	file := filepath.Join(directory(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := simkubelet.Start(t.Context(), file, simkubelet.Behaviour{}); err == nil {
		t.Errorf("no error for a file in place of the directory")
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
