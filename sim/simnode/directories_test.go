package simnode_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// inodes returns the inode numbers of the directories below dir, by path.
func inodes(t *testing.T, dir string) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all[path] = info.Sys().(*syscall.Stat_t).Ino
		}
		return err
	})
	must.Succeed(t, err)
	return all
}

// No directory gets the inode number of a deleted one, as in sysfs and unlike on most disks: inventory
// distinguishes a port from a later one by the number.
func TestInodesAreNotReused(t *testing.T) {
	n := newNode(t)
	two := card
	two.Ports = 2
	had, before := map[uint64]bool{}, map[string]uint64{}
	for turn := range 10 {
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"plug", func() error { return n.Plug(two) }},
			{"unbind", func() error { return n.Unbind(address, 1) }},
			{"bind", func() error { return n.Bind(address, 1) }},
			{"release", func() error { return n.Release(address, 1) }},
			{"assign", func() error { return n.Assign(address, 1) }},
			{"unplug", func() error { return n.Unplug(address) }},
		} {
			must.Succeed(t, step.do())
			now := inodes(t, n.Sys)
			for path, number := range now {
				if had[number] && before[path] != number {
					t.Fatalf("turn %d, %s: %s has inode number %d, which a directory had before", turn, step.name, path, number)
				}
				had[number] = true
			}
			before = now
		}
	}
}

// A released port has neither device node nor directory. An assigned port gets its number again, but has no driver
// until it is bound.
func TestReleaseAndAssign(t *testing.T) {
	two := card
	two.Ports = 2
	n := newNode(t, two)
	root := filepath.Dir(n.Sys)
	node := n.PortNode(address, 1)
	whole := files(t, root+"/sys")
	must.Succeed(t, n.Release(address, 1))
	compare.Equal(t, "released: ports", 1, len(read(t, root, address).Units))
	compare.Error(t, "released "+node, "", compare.ErrorOf(os.Lstat(filepath.Join(n.Dev, node))))
	must.Succeed(t, n.Assign(address, 1))
	want := []inventory.Condition{{Reason: inventory.ReasonDriverUnbound, Health: inventory.Unhealthy}}
	compare.Values(t, "assigned", want, read(t, root, address).Units[1].Conditions)
	must.Succeed(t, n.Bind(address, 1))
	compare.Values(t, "bound", whole, files(t, root+"/sys"))
	must.Succeed(t, n.Unplug(address))
}
