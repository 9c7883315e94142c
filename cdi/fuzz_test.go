package cdi_test

import (
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtime "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Whatever the spec and lock file contained before, the spec contains the written devices after Write, and the
// directory is empty after Close.
func FuzzFound(f *testing.F) {
	want := must.Value(os.ReadFile("testdata/" + name))(f)
	f.Add([]byte{}, []byte{}, uint16(0o644))
	f.Add(want, []byte("1234\n"), uint16(0o600))
	f.Add(want[:len(want)-1], want, uint16(0o644))
	f.Add([]byte(`{"cdiVersion":"0.5.0","kind":"`+kind+`"}`), []byte{}, uint16(0o444))
	f.Fuzz(func(t *testing.T, found, foundLock []byte, mode uint16) {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		must.Succeed(t, errors.Join(os.WriteFile(path, found, 0o600), os.Chmod(path, os.FileMode(mode&0o777)),
			os.WriteFile(filepath.Join(dir, lock), foundLock, 0o644)))
		s := open(t, dir)
		write(t, s, board...)
		expect(t, dir, map[string]string{lock: string(foundLock), name: string(want)})
		compare.NoError(t, "Close", s.Close())
		expect(t, dir, map[string]string{})
	})
}

// Whatever the file contains: if it isn't stale, a runtime that reads it gives each device only the nodes, variables
// and hook that it should have.
func FuzzStale(f *testing.F) {
	want := must.Value(os.ReadFile("testdata/" + name))(f)
	all := must.Value(os.ReadFile("testdata/hook.json"))(f)
	wanted := hooked()
	f.Add(want)
	f.Add(all)
	f.Add(bytes.ReplaceAll(all, []byte("A=1"), []byte("A=2")))
	f.Add(bytes.ReplaceAll(all, []byte("createRuntime"), []byte("poststop")))
	f.Add(bytes.ReplaceAll(want, []byte("dfl-port.0"), []byte("dfl-port.2")))
	f.Add(bytes.ReplaceAll(want, []byte("3b:00.0"), []byte("5e:00.0")))
	f.Add(append(want, "---\n"...))
	f.Add([]byte(`{"cdiVersion":"0.5.0","kind":"` + kind + `","devices":[]}`))
	f.Fuzz(func(t *testing.T, found []byte) {
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), found, 0o600))
		if open(t, dir).Stale(wanted) {
			return
		}
		cache := must.Value(runtime.NewCache(runtime.WithSpecDirs(dir), runtime.WithAutoRefresh(false)))(t)
		_ = cache.Refresh() // may fail: the cache ignores files that it can't parse
		nodes := map[string][]string{kind + "=5e:00.0": {"/dev/dfl-port.2"}, kind + "=3b:00.0": {"/dev/dfl-port.0", "/dev/dfl-port.1", "/dev/dfl-fme.0"}}
		for _, id := range cache.ListDevices() {
			var got []string
			device := cache.GetDevice(id)
			var hooks []*specs.Hook
			var env []string
			if id == kind+"=5e:00.0" {
				env = wanted[0].Env
			}
			compare.Values(t, id+": variables", env, device.ContainerEdits.Env)
			if id == kind+"=3b:00.0" {
				timeout := 110
				hooks = []*specs.Hook{{HookName: "createRuntime", Path: hook("").Path, Args: hook("3b:00.0").Args, Timeout: &timeout}}
			}
			compare.Values(t, id+": hooks", hooks, device.ContainerEdits.Hooks)
			for _, n := range device.ContainerEdits.DeviceNodes {
				got = append(got, n.HostPath)
			}
			if diff := cmp.Diff(nodes[id], got); diff != "" || len(device.GetSpec().ContainerEdits.DeviceNodes) > 0 {
				t.Errorf("%s (-want +got):\n%s", id, diff)
			}
		}
	})
}

// For any device ID, node name and variable, either the runtime reads back the device that was written, or Write
// returns an error and there is no file.
func FuzzDevice(f *testing.F) {
	f.Add("3b:00.0", "dfl-port.0", "ACCELERATOR_DEVICES=3b:00.0")
	f.Add("0001:3b:00.0-p1", "dfl/port\u2028\U0001f600", "A==\n\x00")
	f.Add("a", "..", "")
	f.Add("a\n", "\x7f\"\\", "A")
	f.Add("ยาว", "a//b/./c", "=")
	f.Fuzz(func(t *testing.T, id, node, variable string) {
		dir := t.TempDir()
		s := open(t, dir)
		err := s.Write([]cdi.Device{{ID: id, Nodes: []string{node}, Env: []string{variable}}})
		name, ok := s.Name(id)
		if ok != (err == nil) {
			t.Fatalf("name %q, %v, but %v", name, ok, err)
		}
		if err != nil {
			expect(t, dir, map[string]string{lock: ""})
			return
		}
		cache, err := runtime.NewCache(runtime.WithSpecDirs(dir), runtime.WithAutoRefresh(false))
		must.Succeed(t, err, cache.Refresh())
		device := cache.GetDevice(name)
		if device == nil {
			t.Fatalf("no %q among %q", name, cache.ListDevices())
		}
		got := device.ContainerEdits.DeviceNodes[0]
		if want := path.Join("/dev", node); got.Path != want || got.HostPath != want || !strings.HasPrefix(want, "/dev") {
			t.Errorf("paths %q and %q, want %q", got.Path, got.HostPath, want)
		}
		compare.Values(t, "variables", []string{variable}, device.ContainerEdits.Env)
	})
}
