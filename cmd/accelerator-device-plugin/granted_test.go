package main

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestGrantedNodes(t *testing.T) {
	// container returns the /dev of a container with these nodes, and those of every container.
	container := func(nodes ...string) fstest.MapFS {
		dev := fstest.MapFS{
			"fd": {Data: []byte("/proc/self/fd"), Mode: fs.ModeSymlink}, "shm/a": {}, "sda": {Mode: fs.ModeDevice},
			"pts/0": {Mode: fs.ModeDevice | fs.ModeCharDevice},
		}
		for _, name := range append(nodes, defaultNodes...) {
			dev[name] = &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice}
		}
		return dev
	}
	got, err := grantedNodes(container("dfl-port.0", "vfio/7"))
	if diff := cmp.Diff([]string{"dfl-port.0", "vfio/7"}, got); diff != "" || err != nil {
		t.Errorf("error %v, nodes (-want +got):\n%s", err, diff)
	}
	if got, err := grantedNodes(container()); err == nil || !strings.Contains(err.Error(), "want that of a device") {
		t.Errorf("no device: nodes %q, error %v", got, err)
	}
	if got, err := grantedNodes(unreadable{container("vfio/7"), "vfio"}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a directory that is not readable: nodes %q, error %v", got, err)
	}
}

// unreadable is a file system in which one directory cannot be read.
type unreadable struct {
	fstest.MapFS
	name string
}

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return u.MapFS.ReadDir(name)
}

// Without the variable the command fails also if the machine of the test has device nodes.
func TestGrantedWithoutVariable(t *testing.T) {
	t.Setenv("ACCELERATOR_DEVICES", "")
	cmd := newGranted()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(nil)
	if err := cmd.Execute(); err == nil {
		t.Error("no error")
	}
}
