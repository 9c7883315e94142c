package cdi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	kind = "fpga.intel.com/fpga"
	name = "fpga.intel.com-fpga.json"
	lock = ".fpga.intel.com-fpga.lock"
)

// board is three unsorted devices. The third doesn't have a device node, so only two end up in the spec.
var board = []cdi.Device{
	{ID: "5e:00.0", Nodes: []string{"dfl-port.2"}},
	{ID: "3b:00.0", Nodes: []string{"dfl-port.0", "dfl-port.1", "dfl-fme.0"}},
	{ID: "af:00.0"},
}

// hook returns the hook for a device that is programmed when a container starts.
func hook(id string) *cdi.Hook {
	return &cdi.Hook{Path: "/opt/accelerator-fpga/bin/accelerator-fpga", Args: []string{"accelerator-fpga", "hook", "--device", id}}
}

// hooked returns board with hooks and variables added. The last device still doesn't have a device node.
func hooked() []cdi.Device {
	all := append([]cdi.Device{}, board...)
	all[0].Env, all[2].Env = []string{"B=2", "A=1"}, []string{"C=3"}
	all[1].Hook, all[2].Hook = hook(all[1].ID), hook(all[2].ID)
	return all
}

func goldenFile(t *testing.T, name string) string {
	t.Helper()
	text := must.Value(os.ReadFile("testdata/" + name))(t)
	return string(text)
}

func open(t testing.TB, dir string) *cdi.Spec {
	t.Helper()
	s := must.Value(cdi.Open(dir, kind, "/dev"))(t)
	t.Cleanup(func() { must.Succeed(t, s.Close()) })
	return s
}

func write(t testing.TB, s *cdi.Spec, devices ...cdi.Device) {
	t.Helper()
	must.Succeed(t, s.Write(devices))
}

// expect compares the whole directory: the content of regular files, and the type of anything else.
func expect(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		below, _ := filepath.Rel(dir, path)
		if !d.Type().IsRegular() {
			got[below] = d.Type().String()
			return nil
		}
		text, err := os.ReadFile(path)
		got[below] = string(text)
		return err
	})
	must.Succeed(t, err)
	compare.Values(t, "directory", want, got)
}

// identity returns the spec file's identity, which changes whenever the file is replaced.
func identity(t testing.TB, dir string) fs.FileInfo {
	t.Helper()
	return must.Value(os.Lstat(filepath.Join(dir, name)))(t)
}

// wantName checks whether the spec returns a name for a device, which it does only if the device is in the file.
func wantName(t *testing.T, s *cdi.Spec, id string, want bool) {
	t.Helper()
	_, ok := s.Name(id)
	compare.Equal(t, "a name for "+id, want, ok)
}
