package server_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// injecting starts a server with CDI enabled, and returns the path of its spec.
func injecting(t *testing.T, list ...*inventory.Device) (*rig, *simkubelet.Kubelet, string) {
	t.Helper()
	dir := t.TempDir()
	spec := must.Value(cdi.Open(dir, "fpga.intel.com/fpga", "/host/dev"))(t)
	t.Cleanup(func() { must.Succeed(t, spec.Close()) })
	r := newRig(t, func(c *server.Config) {
		c.CDI = spec
		c.ProgrammingHook = &cdi.Hook{Path: "/opt/bin/accelerator-fpga", Args: []string{"--store=/s"}}
	})
	k := r.serving(list...)
	return r, k, filepath.Join(dir, "fpga.intel.com-fpga.json")
}

func TestAllocateWithCDI(t *testing.T) {
	unit := port("b")
	unit.Nodes = nil
	r, k, file := injecting(t, port("a"), unit, port("c"))
	got := must.Value(k.Allocate(r.ctx, resource, "c", "b", "a"))(t)
	want := &v1beta1.ContainerAllocateResponse{
		Envs:       map[string]string{"ACCELERATOR_UNITS": "c,b,a", "ACCELERATOR_DEVICES": "c,b,a"},
		CdiDevices: []*v1beta1.CDIDevice{{Name: "fpga.intel.com/fpga=c"}, {Name: "fpga.intel.com/fpga=a"}},
		Annotations: map[string]string{
			"nodes.accelerator.b-com.com/a": "dfl-port.a", "nodes.accelerator.b-com.com/c": "dfl-port.c",
		},
	}
	compare.Values(t, "answer", want, got, protocmp.Transform())
	compare.Contains(t, "spec", `"/host/dev/dfl-port.a"`, read(t, file))
}

// With CDI, each device gets its shared nodes from the spec, and the response contains the variables. A device whose
// own device nodes are withheld doesn't get shared nodes either.
func TestAllocateGroupsWithCDI(t *testing.T) {
	withheld := group("3b:00.3", "3")
	withheld.Health, withheld.Reasons = inventory.Unhealthy, []string{"node-in-use"}
	r, k, file := injecting(t, group("3b:00.1", "1"), group("3b:00.2", "2"), withheld)
	got := must.Value(k.Allocate(r.ctx, resource, "3b:00.2", "3b:00.1"))(t)
	const addresses = "0000:3b:00.2,0000:3b:00.1"
	want := &v1beta1.ContainerAllocateResponse{
		Envs: map[string]string{
			"ACCELERATOR_UNITS": "3b:00.2,3b:00.1", "ACCELERATOR_DEVICES": "3b:00.2,3b:00.1", "VFIO_BDF": addresses,
			"PCIDEVICE_B-COM_COM_ACCELERATOR": addresses, "PCIDEVICE_B_COM_COM_ACCELERATOR": addresses,
			"PCI_RESOURCE_B-COM_COM_ACCELERATOR": addresses, "PCI_RESOURCE_B_COM_COM_ACCELERATOR": addresses,
		},
		CdiDevices:  []*v1beta1.CDIDevice{{Name: "fpga.intel.com/fpga=3b:00.2"}, {Name: "fpga.intel.com/fpga=3b:00.1"}},
		Annotations: map[string]string{"nodes.accelerator.b-com.com/3b-00.1": "vfio/1,240:1", "nodes.accelerator.b-com.com/3b-00.2": "vfio/2,240:2"},
	}
	compare.Values(t, "answer", want, got, protocmp.Transform())
	var paths []string
	for line := range strings.Lines(read(t, file)) {
		if _, path, ok := strings.Cut(strings.Trim(line, " ,\n"), `"hostPath": `); ok {
			paths = append(paths, strings.Trim(path, `"`))
		}
	}
	compare.Values(t, "nodes in the spec", []string{"/host/dev/vfio/1", "/host/dev/vfio/vfio", "/host/dev/vfio/2", "/host/dev/vfio/vfio"}, paths)
}

// With CDI, a restarted container doesn't get a device's node if that node might belong to another device.
func TestWithheldNodes(t *testing.T) {
	for _, tc := range []struct {
		reason   string
		withheld bool
	}{
		{"node-in-use", true},
		{"node-mismatch", true},
		{"port-id-conflict", true},
		{"removed-in-use", true},
		{"node-changed", false},
		{"port-ap6", false},
		{"cordoned", false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			sick := port("b")
			sick.Health, sick.Reasons = inventory.Unhealthy, []string{"flapping", tc.reason}
			r, k, file := injecting(t, port("a"), sick)
			must.Value(k.Allocate(r.ctx, resource, "a"))(t) // writes the spec
			if has := strings.Contains(read(t, file), "/host/dev/dfl-port.b"); has == tc.withheld {
				t.Errorf("the spec has the node: %t, want %t", has, !tc.withheld)
			}
		})
	}
}

// With CDI, the spec contains the host files, unless they are withheld.
func TestAllocateMountsWithCDI(t *testing.T) {
	withheld := slot("00:1f.0")
	withheld.Health, withheld.Reasons = inventory.Unhealthy, []string{"replaced-in-use"}
	r, k, file := injecting(t, slot("00:1e.0"), withheld)
	got := must.Value(k.Allocate(r.ctx, resource, "00:1e.0"))(t)
	want := &v1beta1.ContainerAllocateResponse{
		Envs:        map[string]string{"ACCELERATOR_UNITS": "00:1e.0", "ACCELERATOR_DEVICES": "00:1e.0"},
		CdiDevices:  []*v1beta1.CDIDevice{{Name: "fpga.intel.com/fpga=00:1e.0"}},
		Annotations: map[string]string{"nodes.accelerator.b-com.com/00-1e.0": ""},
	}
	compare.Values(t, "answer", want, got, protocmp.Transform())
	text := read(t, file)
	for path, count := range map[string]int{"/host/sys/devices/pci0000:00/0000:00:1e.0/resource4": 2, "0000:00:1f.0": 0} {
		compare.Equal(t, path+" in the spec", count, strings.Count(text, path))
	}
}

// Devices that are programmed when a container starts have the hook, with their own ID. Other devices don't have a
// hook.
func TestHookInSpec(t *testing.T) {
	programmed := func(id string) *inventory.Device {
		d := port(id)
		d.ProgramAtStart = true
		return d
	}
	r, _, file := injecting(t, programmed("a"), port("b"))
	hooks := func(text string) []string {
		var found []string
		for line := range strings.Lines(text) {
			switch line = strings.Trim(line, " ,\n"); {
			case strings.HasPrefix(line, `"name"`), strings.HasPrefix(line, `"--`), strings.Contains(line, "/opt/bin"):
				found = append(found, line)
			}
		}
		return found
	}
	await := func(wanted string, want ...string) {
		t.Helper()
		r.awaitText(file, wanted, func(text string) bool { return slices.Equal(hooks(text), want) })
	}
	hook := func(id string) []string {
		return []string{`"name": "` + id + `"`, `"path": "/opt/bin/accelerator-fpga"`, `"--device"`, `"--store=/s"`}
	}
	await("the hook", append(hook("a"), `"name": "b"`)...)
	compare.Contains(t, "spec", "\"--device\",\n              \"a\",\n", read(t, file))
	r.devices.set(port("a"), programmed("b"))
	await("the hook of the other device", append([]string{`"name": "a"`}, hook("b")...)...)
	r.devices.set(port("a"), port("b"))
	await("no hook", `"name": "a"`, `"name": "b"`)
}

// If a card comes back with a different device number, the spec contains the new number even without an allocation. A
// card that is gone isn't in the spec.
func TestSpecFollowsDevices(t *testing.T) {
	r, _, file := injecting(t, port("a"))
	moved := port("a")
	moved.Nodes = []string{"dfl-port.7"}
	r.devices.set(moved)
	r.awaitText(file, "the new node", func(text string) bool {
		return strings.Contains(text, "dfl-port.7") && !strings.Contains(text, "dfl-port.a")
	})
	other := sick("a", "replaced-in-use")
	r.devices.set(other, port("b"))
	r.awaitText(file, "no node of a device that replaces a held one", func(text string) bool {
		return strings.Contains(text, "dfl-port.b") && !strings.Contains(text, "dfl-port.a")
	})
	r.devices.set(port("b"))
	r.awaitText(file, "another device", func(text string) bool {
		return strings.Contains(text, "dfl-port.b") && !strings.Contains(text, "dfl-port.7")
	})
	r.devices.set()
	r.awaitText(file, "no file", func(text string) bool { return text == "" })
}

// If the spec is deleted or overwritten, the next check rewrites it.
func TestSpecRestored(t *testing.T) {
	r, k, file := injecting(t, port("a"))
	r.awaitText(file, "the device", func(text string) bool { return strings.Contains(text, "dfl-port.a") })
	whole := read(t, file)
	must.Succeed(t, os.Remove(file))
	r.awaitText(file, "the device again", func(text string) bool { return text == whole })
	must.Succeed(t, os.WriteFile(file, []byte("{}"), 0o600))
	must.Value(k.Allocate(r.ctx, resource, "a"))(t)
	compare.Equal(t, "spec after Allocate", whole, read(t, file))
}

// If the spec can't be written, that is logged once and doesn't delay any lists, and Allocate doesn't return any names
// from it.
func TestSpecCannotBeWritten(t *testing.T) {
	r, k, file := injecting(t, port("a"))
	r.awaitText(file, "the device", func(text string) bool { return text != "" })
	r.awaitReady()
	must.Succeed(t, os.Remove(file))
	must.Succeed(t, os.MkdirAll(file+"/x", 0o700)) // not even root can overwrite a directory that isn't empty
	r.devices.set(port("a"), port("b"))
	r.awaitList(k)
	_, err := k.Allocate(r.ctx, resource, "a")
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want Unavailable with the path", err)
	}
	r.awaitEvent("cdi.failed", 1)
	compare.Error(t, "Ready", file, r.Ready())
	must.Succeed(t, os.RemoveAll(file))
	r.awaitEvent("cdi.recovered", 1)
	r.awaitReady()
	must.Value(k.Allocate(r.ctx, resource, "b"))(t)
	compare.Equal(t, "cdi.failed: lines", 1, r.events("cdi.failed"))
}

// An Allocate call that started with the old device nodes doesn't overwrite the new ones. The next check of the file
// would come much too late.
func TestSpecNotOverwrittenByOldContent(t *testing.T) {
	dir := t.TempDir()
	spec := must.Value(cdi.Open(dir, "fpga.intel.com/fpga", "/host/dev"))(t)
	defer spec.Close()
	waits, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	i := server.NewInjection(spec, func(context.Context, map[string][]string) error {
		close(waits)
		<-release
		return nil
	})
	old := port("old")
	old.Reasons = []string{inventory.ReasonNodeChanged}
	i.Want(old)
	go func() { done <- i.Settle(t.Context()) }()
	<-waits
	i.Want(port("new"))
	must.Succeed(t, i.Settle(t.Context()))
	close(release)
	must.Succeed(t, <-done)
	if text := read(t, filepath.Join(dir, "fpga.intel.com-fpga.json")); strings.Contains(text, `"old"`) || !strings.Contains(text, `"new"`) {
		t.Errorf("spec: found the old content, want the new device: %.200s …", text)
	}
}

// If the kubelet gives up on an Allocate call, a device whose nodes have changed stays in the spec, because the nodes
// may already be recorded.
func TestSpecKeptWhenTheCallEnds(t *testing.T) {
	dir := t.TempDir()
	spec := must.Value(cdi.Open(dir, "fpga.intel.com/fpga", "/host/dev"))(t)
	defer spec.Close()
	i := server.NewInjection(spec, func(ctx context.Context, _ map[string][]string) error { return ctx.Err() })
	moved := port("moved")
	moved.Reasons = []string{inventory.ReasonNodeChanged}
	i.Want(moved)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Succeed(t, i.Settle(ctx))
	compare.Contains(t, "spec", `"moved"`, read(t, filepath.Join(dir, "fpga.intel.com-fpga.json")))
}

// awaitText waits until has returns true for a file's content. The file may be missing.
func (r *rig) awaitText(file, wanted string, has func(string) bool) {
	r.Helper()
	for !has(read(r, file)) {
		select {
		case <-r.ctx.Done():
			r.Fatalf("%s: found %s, want %s", file, read(r, file), wanted)
		default:
		}
	}
}

func read(t testing.TB, file string) string {
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}
