package cdi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	runtime "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// inject returns a container's devices as a runtime sets them up when it starts the container.
func inject(t *testing.T, dir string, names ...string) (*oci.Linux, error) {
	t.Helper()
	cache, err := runtime.NewCache(runtime.WithSpecDirs(dir), runtime.WithAutoRefresh(false))
	must.Succeed(t, err)
	compare.NoError(t, "refresh of the runtime's cache", cache.Refresh())
	container := &oci.Spec{}
	_, err = cache.InjectDevices(container, names...)
	return container.Linux, err
}

// linux returns the devices that a container should have: read-write access to these device nodes.
func linux(t *testing.T, nodes ...string) *oci.Linux {
	t.Helper()
	l := &oci.Linux{Resources: &oci.LinuxResources{}}
	for _, node := range nodes {
		var stat syscall.Stat_t
		must.Succeed(t, syscall.Stat("/dev/"+node, &stat))
		// All device nodes used here have small numbers.
		major, minor, mode := int64(stat.Rdev>>8), int64(stat.Rdev&0xff), fs.FileMode(stat.Mode&0o777)
		l.Devices = append(l.Devices, oci.LinuxDevice{Path: "/dev/" + node, Type: "c", Major: major, Minor: minor, FileMode: &mode})
		l.Resources.Devices = append(l.Resources.Devices, oci.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &major, Minor: &minor, Access: "rw"})
	}
	return l
}

// The runtime's own code gives containers the device nodes that are in the file at that moment, and rejects devices
// that aren't in it. Device nodes that exist on every machine stand in for ports.
func TestInject(t *testing.T) {
	dir := t.TempDir()
	// The host's /dev has a different path here, but in the container it is still /dev.
	s := must.Value(cdi.Open(dir, kind, "/proc/self/root/dev"))(t)
	defer s.Close()
	check := func(step string, want *oci.Linux, names ...string) {
		t.Helper()
		got, err := inject(t, dir, names...)
		compare.NoError(t, step, err)
		compare.Values(t, step, want, got)
	}
	card, other := kind+"=3b:00.0", kind+"=5e:00.0"

	write(t, s, cdi.Device{ID: "3b:00.0", Nodes: []string{"null", "zero"}}, cdi.Device{ID: "5e:00.0", Nodes: []string{"full"}})
	check("one", linux(t, "null", "zero"), card)
	text, err := os.ReadFile(filepath.Join(dir, name))
	if want := `"hostPath": "/proc/self/root/dev/null"`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("no %s in %s (%v)", want, text, err)
	}
	check("both", linux(t, "full", "null", "zero"), other, card)

	write(t, s, cdi.Device{ID: "3b:00.0", Nodes: []string{"random"}}, cdi.Device{ID: "5e:00.0", Nodes: []string{"full"}})
	check("renumbered", linux(t, "random"), card)

	write(t, s, cdi.Device{ID: "5e:00.0", Nodes: []string{"full"}})
	compare.Error(t, "after the card is gone", "unresolvable CDI devices "+card, compare.ErrorOf(inject(t, dir, card)))
	check("the other stays", linux(t, "full"), other)

	must.Succeed(t, s.Close())
	compare.Error(t, "after Close", "unresolvable CDI devices "+other, compare.ErrorOf(inject(t, dir, other)))
}

// When devices share a device node, the runtime's own code adds it to the container only once, after the last device's
// own nodes. The cgroup rule appears twice, which is harmless. A device that has only a shared node isn't in the file.
// A device node can be in a subdirectory of /dev.
func TestInjectShared(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	shared := []string{"pts/ptmx"}
	write(t, s, cdi.Device{ID: "3b:00.0", Nodes: []string{"null"}, SharedNodes: shared},
		cdi.Device{ID: "5e:00.0", Nodes: []string{"zero"}, SharedNodes: shared}, cdi.Device{ID: "af:00.0", SharedNodes: shared})
	wantName(t, s, "af:00.0", false)
	got, err := inject(t, dir, kind+"=3b:00.0", kind+"=5e:00.0")
	want, rules := linux(t, "null", "zero", "pts/ptmx"), linux(t, "null", "pts/ptmx", "zero", "pts/ptmx")
	want.Resources = rules.Resources
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func fileText(t *testing.T, dir string) string {
	t.Helper()
	text := must.Value(os.ReadFile(filepath.Join(dir, name)))(t)
	return string(text)
}

// Device IDs of every form are valid CDI device names, and each kind is written with the CDI version that it requires.
func TestIDsAndKinds(t *testing.T) {
	for _, tc := range []struct{ name, kind, id, version string }{
		{"card", kind, "3b:00.0", "0.5.0"},
		{"domain", kind, "0001:3b:00.0", "0.5.0"},
		{"port", kind, "3b:00.0-p1", "0.5.0"},
		{"letter first", kind, "d8:00.0-p3", "0.5.0"},
		{"pool unit", kind, "0", "0.5.0"},
		{"class with a dot", "b-com.com/fpga.v2", "3b:00.0", "0.6.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := must.Value(cdi.Open(dir, tc.kind, "/dev"))(t)
			defer s.Close()
			write(t, s, cdi.Device{ID: tc.id, Nodes: []string{"null"}})
			name, ok := s.Name(tc.id)
			if !ok || !parser.IsQualifiedName(name) || name != tc.kind+"="+tc.id {
				t.Fatalf("name %q, %v", name, ok)
			}
			got, err := inject(t, dir, name)
			if diff := cmp.Diff(linux(t, "null"), got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*.json"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files %q, %v", files, err)
			}
			text, err := os.ReadFile(files[0])
			if want := `"cdiVersion": "` + tc.version + `"`; err != nil || !strings.Contains(string(text), want) {
				t.Errorf("no %s in %s (%v)", want, text, err)
			}
		})
	}
}
