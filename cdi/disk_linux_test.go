package cdi_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// asNobody makes the directory read-only. Permissions don't apply to root, so if the process is root, it also switches
// all of its threads to the user nobody (65534). restore undoes both.
func asNobody(t *testing.T, dir string) (restore func()) {
	t.Helper()
	must.Succeed(t, os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o555))
	uid := os.Geteuid()
	if uid == 0 {
		must.Succeed(t, syscall.Setreuid(-1, 65534))
	}
	return func() { must.Succeed(t, syscall.Setreuid(-1, uid), os.Chmod(dir, 0o755)) }
}

// noDescriptor sets the limit on open files to 0, so that no file can be opened.
func noDescriptor(t *testing.T, _ string) (restore func()) {
	t.Helper()
	var old syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: old.Max}))
	return func() { must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)) }
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	restore := asNobody(t, dir)
	_, err := cdi.Open(dir, kind, "/dev")
	restore()
	for _, want := range []string{"CDI directory " + dir, "permission denied", "want a writable directory with free space"} {
		compare.Error(t, "error", want, err)
	}
}

// inChild is set in the process that inItsOwnProcess starts.
const inChild = "CDI_TEST_IN_CHILD"

// inItsOwnProcess runs the calling test in a separate process, so that noRoom doesn't affect the test framework's own
// files. It reports whether it is running in that process.
func inItsOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inChild) != "" {
		return true
	}
	child := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), inChild+"=1")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("%v:\n%s", err, out)
	}
	return false
}

// noRoom limits the file size to 10 bytes, so that writes fail as they would on a full disk.
func noRoom(t *testing.T, _ string) (restore func()) {
	t.Helper()
	if os.Getenv(inChild) == "" {
		t.Fatal("found the process of the test framework, want one of inItsOwnProcess")
	}
	var old syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 10, Max: old.Max}))
	return func() { must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)) }
}

// If the file can't be written and the old one isn't stale, the old one is kept, the error says why, and the next Write
// after the disk has recovered writes the new file.
func TestWriteFails(t *testing.T) {
	for _, tc := range []struct {
		name    string
		bad     func(t *testing.T, dir string) (restore func())
		errno   error
		removes bool // whether the file can still be removed
	}{
		{"not allowed", asNobody, fs.ErrPermission, false},
		{"no descriptor", noDescriptor, syscall.EMFILE, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			write(t, s, board[0], board[2])
			before := identity(t, dir)
			restore := tc.bad(t, dir)
			err, again := s.Write(board), s.Write(board)
			restore()
			for _, err := range []error{err, again} {
				if !errors.Is(err, tc.errno) || !strings.Contains(err.Error(), filepath.Join(dir, name)+" not changed") {
					t.Errorf("error %v, want %v", err, tc.errno)
				}
			}
			if !os.SameFile(before, identity(t, dir)) {
				t.Error("the old file was replaced, want it unchanged")
			}
			wantName(t, s, "3b:00.0", false)
			wantName(t, s, "5e:00.0", true)
			write(t, s, board...)
			expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})

			restore = tc.bad(t, dir)
			err = s.Write(nil)
			restore()
			compare.Equal(t, fmt.Sprintf("removed (%v)", err), tc.removes, err == nil)
		})
	}
}

// If two cards have swapped their device nodes and the file can't be written, the old file is removed, because it gives
// each card the other's node.
func TestStaleFile(t *testing.T) {
	if !inItsOwnProcess(t) {
		return
	}
	swapped := []cdi.Device{{ID: "3b:00.0", Nodes: []string{"dfl-port.1"}}, {ID: "5e:00.0", Nodes: []string{"dfl-port.0"}}}
	for _, tc := range []struct {
		name    string
		bad     func(t *testing.T, dir string) (restore func())
		devices []cdi.Device
		errno   error
		removed bool
	}{
		{"no room", noRoom, swapped, syscall.EFBIG, true},
		{"no room, one has gone", noRoom, swapped[1:], syscall.EFBIG, true},
		{"no descriptor", noDescriptor, swapped, syscall.EMFILE, true},
		{"not allowed", asNobody, swapped, fs.ErrPermission, false},
		{"not allowed, none is left", asNobody, nil, fs.ErrPermission, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			write(t, s, cdi.Device{ID: "3b:00.0", Nodes: []string{"dfl-port.0"}}, cdi.Device{ID: "5e:00.0", Nodes: []string{"dfl-port.1"}})
			path := filepath.Join(dir, name)
			want := path + " is missing, containers with its devices do not start: "
			if !tc.removed {
				want = path + " is out of date and can be neither written nor removed, containers that start may get the nodes of other devices, or devices that are not programmed: "
			}
			restore := tc.bad(t, dir)
			first, again := s.Write(tc.devices), s.Write(tc.devices)
			restore()
			for _, err := range []error{first, again} {
				if !errors.Is(err, tc.errno) || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %v and: %s", err, tc.errno, want)
				}
				compare.Equal(t, "error of the second attempt", first.Error(), err.Error())
			}
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) != tc.removed {
				t.Errorf("spec: %v; want it removed: %v", err, tc.removed)
			}
			if _, ok := s.Name("3b:00.0"); ok && tc.removed {
				t.Error("Name: found one, want none: there is no file")
			}
			write(t, s, swapped...)
			if got, err := os.ReadFile(path); err != nil || strings.Count(string(got), "hostPath") != 2 {
				t.Errorf("after the disk works again: %s, %v", got, err)
			}
		})
	}
}

// The device nodes are right, but a device's hook or variables are missing, superfluous or different, and the file
// can't be written. The old file is removed, because otherwise a container could start with a different AFU than it
// asked for, or use another device.
func TestStaleHook(t *testing.T) {
	if !inItsOwnProcess(t) {
		return
	}
	with := func(h *cdi.Hook, env ...string) []cdi.Device {
		return []cdi.Device{{ID: "3b:00.0", Nodes: []string{"dfl-port.0"}, Hook: h, Env: env}}
	}
	for _, tc := range []struct {
		name           string
		before, wanted []cdi.Device
		removed        bool
	}{
		{"the same", with(hook("3b:00.0"), "A=1"), with(hook("3b:00.0"), "A=1"), false},
		{"missing", with(nil), with(hook("3b:00.0")), true},
		{"not wanted any more", with(hook("3b:00.0")), with(nil), true},
		{"another program", with(&cdi.Hook{Path: "/usr/bin/true", Args: hook("3b:00.0").Args}), with(hook("3b:00.0")), true},
		{"another device's", with(hook("5e:00.0")), with(hook("3b:00.0")), true},
		{"variable missing", with(nil), with(nil, "A=1"), true},
		{"variable not wanted any more", with(nil, "A=1"), with(nil), true},
		{"another value", with(nil, "A=1"), with(nil, "A=2"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			write(t, s, tc.before...)
			restore := noRoom(t, dir)
			err := s.Write(append(tc.wanted, many(1, "dfl-port.3")...))
			restore()
			compare.ErrorIs(t, "error", syscall.EFBIG, err)
			if _, err := os.Lstat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) != tc.removed {
				t.Errorf("spec: %v; want it removed: %v", err, tc.removed)
			}
		})
	}
}

// A daemon that can't replace the file of a killed daemon decides by its content whether to keep it.
func TestStaleFileOfKilledDaemon(t *testing.T) {
	if !inItsOwnProcess(t) {
		return
	}
	for _, tc := range []struct {
		name   string
		before []byte // nil: as written by a daemon
		stays  bool
	}{
		{"the same nodes", nil, true},
		{"garbage", []byte("\x00{{"), false},
		{"empty", []byte{}, false},
		{"another kind", []byte(`{"cdiVersion":"0.5.0","kind":"a.b/c","devices":[]}`), false},
		{"nodes for all devices", []byte(`{"cdiVersion":"0.5.0","kind":"` + kind + `","devices":[],"containerEdits":{"deviceNodes":[{"path":"/dev/x"}]}}`), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			if tc.before == nil {
				tc.before = []byte(goldenFile(t, name))
			}
			must.Succeed(t, os.WriteFile(path, tc.before, 0o644))
			s := open(t, dir)
			restore := noRoom(t, dir)
			err := s.Write(append(many(1, "dfl-port.3"), board...))
			restore()
			compare.ErrorIs(t, "error", syscall.EFBIG, err)
			want := map[string]string{lock: ""}
			if tc.stays {
				want[name] = string(tc.before)
			}
			expect(t, dir, want)
		})
	}
}

// TestFileSystem puts the file on a file system of its own that first fills up and then becomes read-only.
func TestFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); errors.Is(err, syscall.EPERM) {
		t.Skip("not allowed to mount a file system; TestWriteFails needs none")
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { must.Succeed(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }()
	s := must.Value(cdi.Open(dir, kind, "/dev"))(t)
	defer s.Close()
	write(t, s, board[0], board[2])
	before := identity(t, dir)
	check := func(want error) {
		t.Helper()
		for _, err := range []error{s.Write(board), s.Write(board)} {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), filepath.Join(dir, name)+" not changed") {
				t.Errorf("error %v, want %v", err, want)
			}
		}
		if !os.SameFile(before, identity(t, dir)) {
			t.Error("the old file was replaced, want it unchanged")
		}
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 16<<10), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the file system: found %v, want %v", err, syscall.ENOSPC)
	}
	check(syscall.ENOSPC)

	// Removing a stale file makes room for a new one of the same size or smaller.
	swapped := []cdi.Device{{ID: "5e:00.0", Nodes: []string{"dfl-port.0"}}}
	write(t, s, swapped...)
	if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), "dfl-port.0") {
		t.Errorf("spec %s, %v; want the new node", text, err)
	}
	err := s.Write(many(100, "dfl-port.0"))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), name+" is missing") {
		t.Errorf("error %v, want %v and that the file is missing", err, syscall.ENOSPC)
	}
	expect(t, dir, map[string]string{lock: "", "ballast": string(make([]byte, 12<<10))})

	write(t, s, board[0], board[2])
	before = identity(t, dir)
	must.Succeed(t, os.Remove(ballast), syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	check(syscall.EROFS)
	if err := s.Write(swapped); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "out of date and can be neither written nor removed") {
		t.Errorf("error %v, want %v and that the file is out of date", err, syscall.EROFS)
	}
	must.Succeed(t, s.Write([]cdi.Device{board[0]})) // the file already contains the device
	must.Succeed(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""))
	write(t, s, board...)
	expect(t, dir, map[string]string{lock: "", name: goldenFile(t, name)})
	must.Succeed(t, s.Close())
	expect(t, dir, map[string]string{})
}
