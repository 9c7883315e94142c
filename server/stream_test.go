package server_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func (r *rig) stream(ctx context.Context) grpc.ServerStreamingClient[v1beta1.ListAndWatchResponse] {
	r.Helper()
	return must.Value(r.client().ListAndWatch(ctx, &v1beta1.Empty{}))(r)
}

func (r *rig) receive(stream grpc.ServerStreamingClient[v1beta1.ListAndWatchResponse]) *v1beta1.ListAndWatchResponse {
	r.Helper()
	return must.Value(stream.Recv())(r)
}

// started returns a rig whose server is registered and ready.
func started(t testing.TB, list ...*inventory.Device) (*rig, *simkubelet.Kubelet) {
	t.Helper()
	r := newRig(t, nil)
	return r, r.serving(list...)
}

func TestMessage(t *testing.T) {
	local := port("a")
	local.NUMANode = 0
	degraded := port("b")
	degraded.Health, degraded.Reasons = inventory.Degraded, []string{"power-throttled=1"}
	r, _ := started(t, local, degraded, sick("c", "afu-dead"))
	want := &v1beta1.ListAndWatchResponse{Devices: []*v1beta1.Device{
		{ID: "a", Health: "Healthy", Topology: &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: 0}}}},
		{ID: "b", Health: "Healthy"},
		{ID: "c", Health: "Unhealthy"},
	}}
	compare.Values(t, "first message", want, r.receive(r.stream(r.ctx)), protocmp.Transform())
}

// A list that looks the same to the kubelet isn't resent.
func TestEqualListIsNotSent(t *testing.T) {
	r, k := started(t, port("a"))
	stream := r.stream(r.ctx)
	r.receive(stream)
	for i, change := range []func(*inventory.Device){
		func(*inventory.Device) {},
		func(d *inventory.Device) { d.Health, d.Reasons = inventory.Degraded, []string{"x"} },
		func(d *inventory.Device) { d.AFUID = "0123" },
		func(d *inventory.Device) { d.NUMANode = -2 },
	} {
		d := port("a")
		d.Nodes = []string{fmt.Sprint("node", i)}
		change(d)
		r.devices.set(d)
		r.awaitNode(k, "a", d.Nodes[0])
	}
	r.devices.set(port("a"), port("b"))
	compare.Equal(t, "second message: devices", 2, len(r.receive(stream).Devices))
}

// awaitNode calls Allocate until the device has this node. A change that isn't sent can only be seen in Allocate's
// response.
func (r *rig) awaitNode(k *simkubelet.Kubelet, id, node string) {
	r.Helper()
	for {
		got := must.Value(k.Allocate(r.ctx, resource, id))(r)
		if got.Devices[0].ContainerPath == "/dev/"+node {
			return
		}
	}
}

// Several streams read at the same time. None of them gets the same list twice in a row, and each gets the last list.
func TestSeveralStreams(t *testing.T) {
	r, k := started(t, port("a"))
	const rounds = 200
	last := port(fmt.Sprintf("z%04d", rounds))
	ended := make(chan error)
	for range 5 {
		stream := r.stream(r.ctx)
		go func() { ended <- readUntil(stream, last.ID) }()
	}
	for i := range rounds + 1 {
		list := []*inventory.Device{port("a"), port(fmt.Sprintf("z%04d", i))}
		if i%3 == 0 {
			list[0] = sick("a", "afu-dead")
		}
		r.devices.set(list...)
	}
	for range 5 {
		must.Succeed(t, <-ended)
	}
	r.awaitList(k)
}

// readUntil reads lists until one contains the device.
func readUntil(stream grpc.ServerStreamingClient[v1beta1.ListAndWatchResponse], id string) error {
	var before *v1beta1.ListAndWatchResponse
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		if before != nil && proto.Equal(before, message) {
			return fmt.Errorf("equal list sent twice: %v", message)
		}
		for _, d := range message.Devices {
			if d.ID == id {
				return nil
			}
		}
		before = message
	}
}

// A kubelet that doesn't read delays neither other streams nor the server's shutdown.
func TestSlowReader(t *testing.T) {
	r := newRig(t, nil)
	r.kubelet(simkubelet.Behaviour{NoRead: true})
	r.run()
	list := ports(1024)
	r.devices.set(list...)
	r.awaitReady()
	stream := r.stream(r.ctx)
	for i := range 30 { // about 600 KiB, well above what the connection buffers
		list = append([]*inventory.Device(nil), list...)
		list[0] = sick("0000", "afu-dead")
		if i%2 == 1 {
			list[0] = port("0000")
		}
		r.devices.set(list...)
		want := v1beta1.Unhealthy
		if i%2 == 1 {
			want = v1beta1.Healthy
		}
		for r.receive(stream).Devices[0].Health != want {
		}
	}
	if n := r.events("list.sent"); n > 31+25 {
		t.Errorf("found %d lists sent, want at most 56: the other stream must be blocked", n)
	}
	r.stop()
}

// However many silent connections there are, they don't delay other lists while resources retire.
func TestSilentConnectionsDuringRetirement(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.RetireAfter = 100 * time.Millisecond })
	k := r.kubelet(simkubelet.Behaviour{})
	r.run()
	var list []*inventory.Device
	for i := range 8 {
		list = append(list, as(fmt.Sprintf("example.com/r%d", i), port(fmt.Sprint(i))))
	}
	r.devices.set(list...)
	r.awaitEvent("resource.registered", len(list))
	r.awaitReady()
	for _, path := range r.sockets() {
		conn := must.Value(net.Dial("unix", path))(t)
		defer conn.Close()
	}
	r.devices.set(port("a"))
	r.awaitList(k)
	r.awaitEvent("resource.retired", len(list))
	r.stop()
}

func TestStopDuringHungRegister(t *testing.T) {
	r := newRig(t, nil)
	k := r.begin(simkubelet.Behaviour{HangRegister: true}, port("a"))
	must.Succeed(t, k.AwaitRegistrations(r.ctx, resource, 1))
	r.stop()
}

func TestStreamLogs(t *testing.T) {
	r, k := started(t, port("a"))
	r.devices.set(sick("b", "port-ap6"))
	r.awaitList(k)
	r.awaitEvent("list.sent", 2)
	k.CutStream(resource)
	r.awaitEvent("list.sent", 3)
	r.stop()
	var got []string
	for _, line := range append(r.lines("list.sent"), r.lines("stream.closed")...) {
		m := line.ContextMap()
		_, timed := m["latency_ms"]
		got = append(got, fmt.Sprintf("%v %v rev=%v count=%v devices=%v unhealthy=%v timed=%t reason=%v", line.Level, m["resource"], m["rev"], m["count"], m["devices"], m["unhealthy"], timed, m["reason"]))
	}
	want := []string{
		"info b-com.com/accelerator rev=1 count=1 devices=<nil> unhealthy=<nil> timed=true reason=<nil>", // devices in a first list aren't logged
		"info b-com.com/accelerator rev=2 count=1 devices=[a b] unhealthy=[b] timed=true reason=<nil>",
		"info b-com.com/accelerator rev=2 count=1 devices=<nil> unhealthy=[b] timed=false reason=<nil>", // an old list on a new stream
		"info b-com.com/accelerator rev=<nil> count=<nil> devices=<nil> unhealthy=<nil> timed=false reason=ended by the kubelet",
		"info b-com.com/accelerator rev=<nil> count=<nil> devices=<nil> unhealthy=<nil> timed=false reason=ended by us",
	}
	compare.Values(t, "log", want, got)
}

// The log lists exactly the devices that look different to the kubelet.
func TestListSentFields(t *testing.T) {
	numa := func(d *inventory.Device, node int) *inventory.Device { d.NUMANode = node; return d }
	degraded := port("b")
	degraded.Health, degraded.Reasons = inventory.Degraded, []string{"port-ap1"}
	many := ports(10) // only eight are logged
	for _, tc := range []struct {
		name          string
		before, after []*inventory.Device
		want          string // devices, unhealthy, gone
	}{
		{"new: first, between, last", []*inventory.Device{port("b"), port("d")},
			[]*inventory.Device{port("a"), port("b"), port("c"), port("d"), port("e")}, "[a c e] <nil> <nil>"},
		{"gone: first, between, last", []*inventory.Device{port("a"), port("b"), port("c"), port("d"), port("e")},
			[]*inventory.Device{port("b"), port("d")}, "[a c e] <nil> [a c e]"},
		{"replaced by another one", []*inventory.Device{port("a"), port("c")}, []*inventory.Device{port("a"), port("b")}, "[b c] <nil> [c]"},
		{"unhealthy", []*inventory.Device{port("a"), port("b")}, []*inventory.Device{port("a"), sick("b", "port-ap6")}, "[b] [b] <nil>"},
		{"healthy again", []*inventory.Device{port("a"), sick("b", "port-ap6")}, []*inventory.Device{port("a"), port("b")}, "[b] <nil> <nil>"},
		{"unhealthy for another reason, and a new one", []*inventory.Device{sick("b", "port-ap6")},
			[]*inventory.Device{sick("b", "port-error"), sick("c", "port-ap6")}, "[c] [c] <nil>"},
		{"degraded, which is not sent, and a new one", []*inventory.Device{port("b")},
			[]*inventory.Device{degraded, port("c")}, "[c] <nil> <nil>"},
		{"moved to another NUMA node", []*inventory.Device{numa(port("a"), 0), port("b")}, []*inventory.Device{numa(port("a"), 1), port("b")}, "[a] <nil> <nil>"},
		{"the last one gone", []*inventory.Device{port("a")}, nil, "[a] <nil> [a]"},
		{"more than maxNamed", nil, many,
			"[0000 0001 0002 0003 0004 0005 0006 0007 and 2 more] <nil> <nil>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, k := started(t, append([]*inventory.Device{port("-")}, tc.before...)...) // plus a device that stays
			r.devices.set(append([]*inventory.Device{port("-")}, tc.after...)...)
			r.awaitList(k)
			r.awaitEvent("list.sent", 2)
			lines := r.lines("list.sent")
			first, last := lines[0].ContextMap(), lines[len(lines)-1].ContextMap()
			if first["devices"] != nil || first["gone"] != nil {
				t.Errorf("first list: found devices %v, gone %v; want none", first["devices"], first["gone"])
			}
			compare.Equal(t, "devices, unhealthy, gone", tc.want, fmt.Sprint(last["devices"], last["unhealthy"], last["gone"]))
		})
	}
}
