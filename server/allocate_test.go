package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// request returns an Allocate request, with one list of devices per container.
func request(containers ...[]string) *v1beta1.AllocateRequest {
	r := &v1beta1.AllocateRequest{}
	for _, ids := range containers {
		r.ContainerRequests = append(r.ContainerRequests, &v1beta1.ContainerAllocateRequest{DevicesIds: ids})
	}
	return r
}

func envs(ids string) map[string]string {
	return map[string]string{"ACCELERATOR_UNITS": ids, "ACCELERATOR_DEVICES": ids}
}

// nodesOf returns the annotations that list the ports' device nodes.
func nodesOf(ids ...string) map[string]string {
	all := map[string]string{}
	for _, id := range ids {
		all["nodes.accelerator.b-com.com/"+id] = "dfl-port." + id
	}
	return all
}

func node(name string) *v1beta1.DeviceSpec {
	return &v1beta1.DeviceSpec{HostPath: "/host/dev/" + name, ContainerPath: "/dev/" + name, Permissions: "rw"}
}

func TestAllocate(t *testing.T) {
	degraded := port("b")
	degraded.Health, degraded.Reasons = inventory.Degraded, []string{"power-throttled=1"}
	twoNodes := port("d")
	twoNodes.Nodes, twoNodes.NodeNumbers = []string{"dfl-port.4", "dfl-fme.0"}, []string{"245:4", "246:0"}
	noNode := port("e")
	noNode.Nodes = nil
	list := []*inventory.Device{port("a"), degraded, sick("c", "afu-dead", "port-ap6"), twoNodes, noNode}
	r, k := started(t, append(list, port("f"))...)
	r.devices.set(list...)
	r.awaitList(k)

	long := strings.Repeat("x", 5000)
	for _, tc := range []struct {
		name string
		ask  *v1beta1.AllocateRequest
		want *v1beta1.AllocateResponse
		code codes.Code
		text string
	}{
		{name: "one", ask: request([]string{"a"}), want: &v1beta1.AllocateResponse{ContainerResponses: []*v1beta1.ContainerAllocateResponse{
			{Envs: envs("a"), Annotations: nodesOf("a"), Devices: []*v1beta1.DeviceSpec{node("dfl-port.a")}},
		}}},
		{name: "in the order of the request", ask: request([]string{"d", "b", "a"}), want: &v1beta1.AllocateResponse{ContainerResponses: []*v1beta1.ContainerAllocateResponse{
			{Envs: envs("d,b,a"), Annotations: map[string]string{
				"nodes.accelerator.b-com.com/d": "dfl-port.4,dfl-fme.0,245:4,246:0",
				"nodes.accelerator.b-com.com/b": "dfl-port.b", "nodes.accelerator.b-com.com/a": "dfl-port.a",
			}, Devices: []*v1beta1.DeviceSpec{node("dfl-port.4"), node("dfl-fme.0"), node("dfl-port.b"), node("dfl-port.a")}},
		}}},
		{name: "two containers", ask: request([]string{"b"}, []string{"e", "a"}), want: &v1beta1.AllocateResponse{ContainerResponses: []*v1beta1.ContainerAllocateResponse{
			{Envs: envs("b"), Annotations: nodesOf("b"), Devices: []*v1beta1.DeviceSpec{node("dfl-port.b")}},
			{Envs: envs("e,a"), Annotations: nodesOf("a"), Devices: []*v1beta1.DeviceSpec{node("dfl-port.a")}},
		}}},
		{name: "no container", ask: request(), code: codes.InvalidArgument, text: "no container requests a device"},
		{name: "no device", ask: request([]string{"a"}, nil), code: codes.InvalidArgument, text: "a container requests no device"},
		{name: "twice", ask: request([]string{"a", "a"}), code: codes.InvalidArgument, text: `requested twice: "a"`},
		{name: "twice in two containers", ask: request([]string{"a"}, []string{"a"}), code: codes.InvalidArgument, text: `requested twice: "a"`},
		{name: "unknown", ask: request([]string{"a", "0000:3b:00.0"}), code: codes.NotFound, text: `not listed: "0000:3b:00.0"`},
		{name: "empty id", ask: request([]string{""}), code: codes.NotFound, text: `not listed: ""`},
		{name: "gone", ask: request([]string{"f"}), code: codes.NotFound, text: `not listed: "f"`},
		{name: "unhealthy", ask: request([]string{"c"}), code: codes.FailedPrecondition, text: `unhealthy: "c" (afu-dead, port-ap6)`},
		{name: "everything", ask: request([]string{"c", "f", "g", "g"}, nil), code: codes.InvalidArgument,
			text: `a container requests no device; requested twice: "g"; not listed: "f", "g"; unhealthy: "c" (afu-dead, port-ap6)`},
		{name: "a long id", ask: request([]string{long}), code: codes.NotFound, text: `not listed: "` + long[:100] + `…"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plugin := must.Value(k.Plugin(resource))(t)
			got, err := plugin.Allocate(r.ctx, tc.ask)
			compare.Values(t, "answer", tc.want, got, protocmp.Transform())
			if s := status.Convert(err); s.Code() != tc.code || s.Message() != tc.text {
				t.Errorf("status %v %q, want %v %q", s.Code(), s.Message(), tc.code, tc.text)
			}
		})
	}
	if served, refused := r.events("allocate.served"), r.events("allocate.refused"); served != 3 || refused != 10 {
		t.Errorf("%d served and %d refused in the log, want 3 and 10", served, refused)
	}
}

// Allocate waits until a force-deleted pod that had the device has no more processes.
func TestAllocateAfterForcedDeletion(t *testing.T) {
	var asked atomic.Int32
	var hangs atomic.Bool
	r := newRig(t, func(c *server.Config) {
		c.EndTimeout = 300 * time.Millisecond
		c.Ending = func(name string, ids []string) []string {
			if compare.Values(t, "ids", []string{"a"}, ids); name != resource {
				t.Errorf("resource %s", name)
			}
			if asked.Add(1) <= 2 || hangs.Load() {
				return []string{"u1"}
			}
			return nil
		}
	})
	k := r.serving(port("a"))
	must.Value(k.Allocate(r.ctx, resource, "a"))(t)
	if waited := r.lines("allocate.served")[0].ContextMap()["lasted_ms"]; waited == nil || asked.Load() != 3 {
		t.Errorf("asked %d times, waited %v ms, want 3 times", asked.Load(), waited)
	}
	must.Value(k.Allocate(r.ctx, resource, "a"))(t)
	if waited, found := r.lines("allocate.served")[1].ContextMap()["lasted_ms"]; found {
		t.Errorf("nothing to wait for: found lasted_ms %v", waited)
	}
	hangs.Store(true)
	_, err := k.Allocate(r.ctx, resource, "a")
	const want = "a deleted pod that had one of the devices still has processes (pod UID u1)"
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != want {
		t.Errorf("found %v %q, want %q", s.Code(), s.Message(), want)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 150*time.Millisecond)
	defer cancel()
	compare.Equal(t, "code", codes.DeadlineExceeded, status.Code(compare.ErrorOf(k.Allocate(ctx, resource, "a"))))
}

// group returns a device that is an IOMMU group.
func group(id, number string) *inventory.Device {
	return &inventory.Device{
		ID: id, OfferedAs: resource, PCIAddress: "0000:" + id, Facts: inventory.Facts{Nodes: []string{"vfio/" + number}, NodeNumbers: []string{"240:" + number},
			SharedNodes: []string{"vfio/vfio"}, AddressEnv: []string{"PCIDEVICE_", "PCI_RESOURCE_", "VFIO_BDF"}},
	}
}

// slot returns a device that has host files but no device node.
func slot(id string) *inventory.Device {
	dir := "devices/pci0000:00/0000:" + id
	return &inventory.Device{ID: id, OfferedAs: resource, PCIAddress: "0000:" + id, Facts: inventory.Facts{Mounts: []string{dir + "/resource0", dir + "/resource4"}}}
}

// A device that has host files but no device node is passed to the container as mounts at the same paths. Its
// annotation tells a later daemon that it doesn't have a device node.
func TestAllocateMounts(t *testing.T) {
	r, k := started(t, slot("00:1e.0"), port("b"))
	got := must.Value(k.Allocate(r.ctx, resource, "00:1e.0", "b"))(t)
	const dir = "/host/sys/devices/pci0000:00/0000:00:1e.0"
	want := &v1beta1.ContainerAllocateResponse{
		Envs:        map[string]string{"ACCELERATOR_UNITS": "00:1e.0,b", "ACCELERATOR_DEVICES": "00:1e.0,b"},
		Annotations: map[string]string{"nodes.accelerator.b-com.com/00-1e.0": "", "nodes.accelerator.b-com.com/b": "dfl-port.b"},
		Devices:     []*v1beta1.DeviceSpec{{HostPath: "/host/dev/dfl-port.b", ContainerPath: "/dev/dfl-port.b", Permissions: "rw"}},
		Mounts: []*v1beta1.Mount{
			{HostPath: dir + "/resource0", ContainerPath: dir + "/resource0"}, {HostPath: dir + "/resource4", ContainerPath: dir + "/resource4"},
		},
	}
	compare.Values(t, "answer", want, got, protocmp.Transform())
}

// Each container gets a shared device node only once, and only along with other device nodes. Shared nodes aren't in
// the annotations, which a later daemon compares. Each variable contains the addresses of the devices that specify it.
func TestAllocateGroups(t *testing.T) {
	cdev, noNode, other := group("3b:00.3", "3"), group("3b:00.4", "4"), group("3b:00.5", "5")
	cdev.SharedNodes, cdev.Members = []string{"vfio/vfio", "iommu"}, []string{"0000:3b:00.6"}
	noNode.Nodes, noNode.NodeNumbers = nil, nil
	other.AddressEnv = []string{"VFIO_BDF"}
	r, k := started(t, group("3b:00.1", "1"), group("3b:00.2", "2"), cdev, noNode, other)
	plugin := must.Value(k.Plugin(resource))(t)
	env := func(ids, addresses, all string) map[string]string {
		env := envs(ids)
		// The first name in each pair is what users of other plugins expect; the second can be used in shells.
		for _, name := range []string{"PCIDEVICE_B-COM_COM_ACCELERATOR", "PCIDEVICE_B_COM_COM_ACCELERATOR", "PCI_RESOURCE_B-COM_COM_ACCELERATOR", "PCI_RESOURCE_B_COM_COM_ACCELERATOR"} {
			if addresses != "" {
				env[name] = addresses
			}
		}
		env["VFIO_BDF"] = all
		return env
	}
	annotations := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			all["nodes.accelerator.b-com.com/"+pairs[i]] = pairs[i+1]
		}
		return all
	}
	got := must.Value(plugin.Allocate(r.ctx, request([]string{"3b:00.2", "3b:00.1"}, []string{"3b:00.3", "3b:00.5"}, []string{"3b:00.4"})))(t)
	want := &v1beta1.AllocateResponse{ContainerResponses: []*v1beta1.ContainerAllocateResponse{
		{Envs: env("3b:00.2,3b:00.1", "0000:3b:00.2,0000:3b:00.1", "0000:3b:00.2,0000:3b:00.1"),
			Annotations: annotations("3b-00.2", "vfio/2,240:2", "3b-00.1", "vfio/1,240:1"),
			Devices:     []*v1beta1.DeviceSpec{node("vfio/2"), node("vfio/1"), node("vfio/vfio")}},
		{Envs: env("3b:00.3,3b:00.5", "0000:3b:00.3", "0000:3b:00.3,0000:3b:00.5"),
			Annotations: annotations("3b-00.3", "vfio/3,240:3", "3b-00.5", "vfio/5,240:5"),
			Devices:     []*v1beta1.DeviceSpec{node("vfio/3"), node("vfio/5"), node("vfio/vfio"), node("iommu")}},
		{Envs: env("3b:00.4", "0000:3b:00.4", "0000:3b:00.4"), Annotations: annotations()},
	}}
	compare.Values(t, "answer", want, got, protocmp.Transform())
}

func TestNamesOfAddressEnv(t *testing.T) {
	for _, tc := range []struct {
		resource string
		want     []string
	}{
		// These examples are from the sriov-network-device-plugin README and KubeVirt's resourceNameToEnvvar.
		{"intel.com/sriov", []string{"PCIDEVICE_INTEL_COM_SRIOV"}},
		{"intel.com/sriov_test", []string{"PCIDEVICE_INTEL_COM_SRIOV_TEST"}},
		{"intel.com/dpdk-nic-1", []string{"PCIDEVICE_INTEL_COM_DPDK-NIC-1", "PCIDEVICE_INTEL_COM_DPDK_NIC_1"}},
	} {
		compare.Values(t, tc.resource, tc.want, server.Completed("PCIDEVICE_", tc.resource))
	}
}

func TestAllocateTenThousand(t *testing.T) {
	r, k := started(t, port("a"))
	ids := make([]string, 10000)
	for i := range ids {
		ids[i] = fmt.Sprintf("%063d", i)
	}
	_, err := k.Allocate(r.ctx, resource, ids...)
	s := status.Convert(err)
	if s.Code() != codes.NotFound || !strings.HasSuffix(s.Message(), `and 9992 more`) || len(s.Message()) > 1000 {
		t.Errorf("status %v, %d bytes: %q", s.Code(), len(s.Message()), s.Message())
	}
	line := r.lines("allocate.refused")[0].ContextMap()
	if n := len(line["devices"].([]any)); n != 9 || line["count"] != int64(10000) {
		t.Errorf("log: found %d devices of %v, want 9 of 10000", n, line["count"])
	}
	// The gRPC library rejects messages larger than maxMessage bytes.
	_, err = k.Allocate(r.ctx, resource, strings.Repeat("x", 5<<20))
	compare.Equal(t, "code of a request of 5 MiB", codes.ResourceExhausted, status.Code(err))
	compare.NoError(t, "listed device", compare.ErrorOf(k.Allocate(r.ctx, resource, "a")))
}

func TestOtherCalls(t *testing.T) {
	r, k := started(t, port("a"))
	plugin := must.Value(k.Plugin(resource))(t)
	options, err := plugin.GetDevicePluginOptions(r.ctx, &v1beta1.Empty{})
	if err != nil || options == nil || options.PreStartRequired || !options.GetPreferredAllocationAvailable {
		t.Errorf("options: %v, %v", options, err)
	}
}

func TestPreferredAllocation(t *testing.T) {
	degraded := port("b")
	degraded.Health = inventory.Degraded
	r, k := started(t, port("a"), degraded, port("c"), sick("d", "afu-dead"), port("e"))
	plugin := must.Value(k.Plugin(resource))(t)
	for _, tc := range []struct {
		name            string
		available, must []string
		size            int32
		want            []string
		code            codes.Code
	}{
		{name: "healthy by id", available: []string{"e", "c", "b", "a"}, size: 2, want: []string{"a", "c"}},
		{name: "degraded after healthy", available: []string{"a", "b", "c", "e"}, size: 3, want: []string{"a", "c", "e"}},
		{name: "not those that are unhealthy now", available: []string{"a", "d"}, size: 2, want: []string{"a"}},
		{name: "more must than size", available: []string{"a", "b"}, must: []string{"a", "b"}, size: 1, code: codes.InvalidArgument},
		{name: "negative", available: []string{"a"}, size: -1, code: codes.InvalidArgument},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := plugin.GetPreferredAllocation(r.ctx, &v1beta1.PreferredAllocationRequest{
				ContainerRequests: []*v1beta1.ContainerPreferredAllocationRequest{
					{AvailableDeviceIDs: tc.available, MustIncludeDeviceIDs: tc.must, AllocationSize: tc.size},
				},
			})
			if status.Code(err) != tc.code {
				t.Fatalf("got %v, want %v", err, tc.code)
			}
			if err != nil {
				return
			}
			compare.Values(t, "choice", tc.want, got.ContainerResponses[0].DeviceIDs)
		})
	}
}
