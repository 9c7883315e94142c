package cdi_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestLifecycle(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // modes must not depend on the umask
	dir := filepath.Join(t.TempDir(), "run", "cdi")
	s := open(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o755 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	expect(t, dir, map[string]string{lock: ""})
	wantName(t, s, "5e:00.0", false)
	if info, err := os.Stat(filepath.Join(dir, lock)); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode of the lock file: found %v, %v, want 0600: a user who can open the file can lock it", info.Mode(), err)
	}

	write(t, s, board...)
	golden.Compare(t, "testdata/"+name, fileText(t, dir))
	expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
	before := identity(t, dir)
	compare.Equal(t, "mode", 0o644, before.Mode())
	wantName(t, s, "5e:00.0", true)
	wantName(t, s, "af:00.0", false)

	// The same devices in another order don't cause a write.
	write(t, s, board[2], board[1], board[0])
	if !os.SameFile(before, identity(t, dir)) {
		t.Error("the file was written again, want it unchanged")
	}

	for range 2 {
		write(t, s, board[2]) // has no device node
		expect(t, dir, map[string]string{lock: ""})
		wantName(t, s, "5e:00.0", false)
	}

	write(t, s, board...)
	for range 2 {
		must.Succeed(t, s.Close())
	}
	expect(t, dir, map[string]string{})
	wantName(t, s, "3b:00.0", false)
	compare.ErrorIs(t, "after Close", fs.ErrClosed, s.Write(board))
	expect(t, dir, map[string]string{})
}

// A device's hook and variables are in the file, in order, for as long as the device has them.
func TestHookAndEnv(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	hooked := hooked()
	write(t, s, hooked...)
	golden.Compare(t, "testdata/hook.json", fileText(t, dir))
	want := goldenFile(t, "hook.json")
	expect(t, dir, map[string]string{lock: "", name: want})
	before := identity(t, dir)
	write(t, s, hooked...)
	if !os.SameFile(before, identity(t, dir)) {
		t.Error("the file was written again, want it unchanged")
	}
	plain := append([]cdi.Device{}, board...)
	plain[0].Env = []string{}
	write(t, s, plain...)
	expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
	write(t, s, hooked...)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(goldenFile(t, name)), 0o644))
	write(t, s, hooked...) // a daemon without hooks has overwritten the file
	expect(t, dir, map[string]string{lock: "", name: want})
}

// A device with host files but no device node is in the file. Containers can write to what it mounts, but not to its
// files.
func TestMounts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	const file = "/sys/devices/pci0000:00/0000:00:1e.0/resource0"
	write(t, s, cdi.Device{ID: "00:1e.0", Mounts: []string{file}, Files: []cdi.File{{HostPath: "/var/lib/x/a.json", Path: "/var/run/x/b.json"}}})
	golden.Compare(t, "testdata/mounts.json", fileText(t, dir))
	expect(t, dir, map[string]string{lock: "", name: goldenFile(t, "mounts.json")})
	wantName(t, s, "00:1e.0", true)
	for _, file := range []string{"", "sys/resource0", "/sys/../etc/shadow", "/sys//resource0"} {
		compare.Error(t, fmt.Sprintf("mount %q", file), "want a clean absolute path", s.Write([]cdi.Device{{ID: "00:1e.0", Mounts: []string{file}}}))
		for _, f := range []cdi.File{{HostPath: file, Path: "/a"}, {HostPath: "/a", Path: file}} {
			compare.Error(t, fmt.Sprintf("file %q", f), "want a clean absolute path",
				s.Write([]cdi.Device{{ID: "00:1e.0", Nodes: []string{"x"}, Files: []cdi.File{f}}}))
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tc := range []struct{ name, kind, root, want string }{
		{"no class", "fpga.intel.com", "/dev", `CDI kind: found "fpga.intel.com", want VENDOR/CLASS: `},
		{"empty", "", "/dev", `CDI kind: found "", want VENDOR/CLASS: `},
		{"a path", "../../etc/fpga", "/dev", `CDI kind: found "../../etc/fpga", want VENDOR/CLASS: `},
		{"two slashes", "a/b/c", "/dev", `CDI kind: found "a/b/c", want VENDOR/CLASS: `},
		{"relative root", kind, "dev", `host device root: found "dev", want an absolute path`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := cdi.Open(dir, tc.kind, tc.root)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			expect(t, dir, map[string]string{})
		})
	}
}

// If the devices don't make a valid spec, neither the file nor the names change.
func TestInvalid(t *testing.T) {
	for _, tc := range []struct {
		name    string
		devices []cdi.Device
		want    string
	}{
		{"id with a slash", []cdi.Device{{ID: "3b/00", Nodes: []string{"a"}}}, "3b/00"},
		{"empty id", []cdi.Device{{Nodes: []string{"a"}}}, "empty"},
		{"id twice", []cdi.Device{{ID: "a", Nodes: []string{"a"}}, {ID: "a", Nodes: []string{"b"}}}, `multiple device "a"`},
		{"node without name", []cdi.Device{{ID: "a", Nodes: []string{""}}}, `node: found ""`},
		{"node above the root", []cdi.Device{{ID: "a", Nodes: []string{"../etc/shadow"}}}, `node: found "../etc/shadow"`},
		{"absolute node", []cdi.Device{{ID: "a", Nodes: []string{"/dev/sda"}}}, `node: found "/dev/sda"`},
		{"variable without value", []cdi.Device{{ID: "a", Nodes: []string{"a"}, Env: []string{"A"}}}, "invalid environment variable"},
		{"variable that is no text", []cdi.Device{{ID: "a", Nodes: []string{"a"}, Env: []string{"A=\xff"}}}, "a runtime would read other content"},
		{"no text", []cdi.Device{{ID: "a", Nodes: []string{"\xff"}}}, "a runtime would read other content"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			write(t, s, board...)
			err := s.Write(tc.devices)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), filepath.Join(dir, name)+" not changed") {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
			wantName(t, s, "3b:00.0", true)
		})
	}
}

// While the disk hangs, each call fails after a second. Once the disk responds again, calls succeed.
func TestStall(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := must.Value(cdi.Open(dir, kind, "/dev"))(t)
		must.Succeed(t, s.Write(board))
		until := make(chan struct{})
		compare.Error(t, "Stall", dir+": no answer within 1s", s.Stall(until))
		for _, call := range []struct {
			name string
			do   func() error
		}{{"Write", func() error { return s.Write(nil) }}, {"Close", s.Close}} {
			compare.Error(t, call.name, dir+": an earlier call has not returned", call.do())
		}
		wantName(t, s, "3b:00.0", true)
		close(until)
		synctest.Wait()
		must.Succeed(t, s.Write(board), s.Close())
	})
	expect(t, dir, map[string]string{})
}

// TestConcurrent runs all methods at the same time, for the race detector. Readers never see half a file.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	write(t, s, board...)
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || !strings.HasSuffix(string(text), "}\n") {
					t.Errorf("spec: found %q, %v, want a complete file", text, err)
					return
				}
			}
		})
	}
	for i := range 4 {
		writers.Go(func() {
			for range 10 {
				compare.NoError(t, "Write", s.Write(board[i%2:]))
				s.Name("3b:00.0")
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}
