package simnode_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func named(name string) simnode.Board {
	b, err := simnode.BoardNamed(name)
	if err != nil {
		panic(err)
	}
	return b
}

func open(t *testing.T, dir string) *simnode.Node {
	t.Helper()
	return must.Value(simnode.Open(t.Context(), dir))(t)
}

// reopen closes a node and opens it again, as a later process does.
func reopen(t *testing.T, n *simnode.Node) *simnode.Node {
	t.Helper()
	must.Succeed(t, n.Close())
	return open(t, filepath.Dir(n.Sys))
}

// A later process finds the cards and numbers of an earlier one.
func TestOpenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	n := open(t, dir)
	empty := files(t, n.Sys)
	must.Succeed(t, n.PlugBoard(named("two-ports"), address), n.PlugBoard(named("vf"), "0000:02:00.0"))
	whole, devices := files(t, n.Sys), n.Devices()
	n = reopen(t, n)
	compare.Values(t, "opened again", whole, files(t, n.Sys))
	compare.Values(t, "devices", devices, n.Devices())
	want := []string{"01:00.0 dfl-port.0", "01:00.0-p1 dfl-port.1", "02:00.0 dfl-port.2", "02:00.1 dfl-port.3"}
	var got []string
	for _, d := range n.Devices() {
		got = append(got, d.ID+" "+d.Node)
	}
	compare.Values(t, "devices", want, got)
	must.Succeed(t, n.Unplug(address))
	n = reopen(t, n)
	compare.Error(t, "plugged twice", "slot 0000:02:00.0: found a card, want an empty slot", n.PlugBoard(named("pac-a10"), "0000:02:00.0"))
	must.Succeed(t, n.PlugBoard(named("two-ports"), address), n.Unplug("0000:02:00.0"), n.Unplug(address))
	compare.Values(t, "all pulled", empty, files(t, n.Sys))
	must.Succeed(t, n.Close())
	var left []string
	for _, pattern := range []string{"*", "dev/*"} {
		found := must.Value(filepath.Glob(filepath.Join(dir, pattern)))(t)
		left = append(left, found...)
	}
	for i := range left {
		left[i] = strings.TrimPrefix(left[i], dir+"/")
	}
	compare.Values(t, "all pulled", []string{"dev", "directories", "lock", "node.json", "sys"}, left)
}

// A directory of a node does not get the inode number of a directory that an earlier process deleted.
func TestInodesAreNotReusedByLaterProcess(t *testing.T) {
	n := open(t, filepath.Join(t.TempDir(), "node"))
	had := map[uint64]bool{}
	for turn := range 5 {
		must.Succeed(t, n.PlugBoard(named("vf"), address))
		for path, number := range inodes(t, n.CardDir(address)) {
			if had[number] {
				t.Fatalf("turn %d: %s has inode number %d, which a directory had before", turn, path, number)
			}
			had[number] = true
		}
		must.Succeed(t, n.Unplug(address))
		n = reopen(t, n)
	}
	must.Succeed(t, n.Close())
}

// The number of directories that occupy inode numbers is bounded.
func TestDirectoriesAreBounded(t *testing.T) {
	root := t.TempDir()
	const keep = 100
	d := simnode.NewDirectories(root, keep)
	for range 10 {
		must.Succeed(t, d.MakeAndRemove(40))
	}
	all := must.Value(os.ReadDir(root))(t)
	if len(all) > keep {
		t.Errorf("%d directories occupy numbers, want at most %d", len(all), keep)
	}
}

// A node can be opened after its process was killed, and its cards can be pulled: node.json says that the card is
// partial, because it was saved before, and any of the card's files may be missing.
func TestKilled(t *testing.T) {
	for _, name := range []string{"vf", "n6001-vfs", "u250", "aws-f2"} {
		dir := filepath.Join(t.TempDir(), "node")
		n := open(t, dir)
		must.Succeed(t, n.PlugBoard(named(name), address), n.Unplug(address))
		empty := files(t, n.Sys) // loading vfio has created a node
		must.Succeed(t, n.PlugBoard(named(name), address))
		whole := files(t, n.Sys)
		for turn := range 3 {
			must.Succeed(t, n.Close())
			state, err := os.ReadFile(dir + "/node.json")
			partial := strings.ReplaceAll(string(state), `"Partial":false`, `"Partial":true`)
			must.Succeed(t, err, os.WriteFile(dir+"/node.json", []byte(partial), 0o600))
			for i, file := range slices.Sorted(maps.Keys(files(t, n.CardDir(address)))) {
				if i%3 == turn {
					must.Succeed(t, os.Remove(filepath.Join(n.CardDir(address), strings.TrimSuffix(file, " ->"))))
				}
			}
			n = open(t, dir)
			for _, d := range n.Devices() {
				for action, err := range map[string]error{
					"plug": n.Plug(simnode.Card{Address: d.Address}), "break": n.Break(d.ID, "port-ap6"), "heal": n.Heal(d.ID),
				} {
					compare.Error(t, fmt.Sprintf("%s: %s of a partial card", name, action), "pull it first", err)
				}
			}
			must.Succeed(t, n.Unplug(address))
			compare.Values(t, name+": pulled", empty, files(t, n.Sys))
			must.Succeed(t, n.PlugBoard(named(name), address))
			compare.Values(t, name+": plugged again", whole, files(t, n.Sys))
		}
		must.Succeed(t, n.Close())
	}
}

// Processes that plug at once wait for each other.
func TestTwoAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			n, err := simnode.Open(t.Context(), dir)
			if err == nil {
				err = errors.Join(n.PlugBoard(named("pac-a10"), fmt.Sprintf("0000:%02x:00.0", i+1)), n.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	n := open(t, dir)
	nodes := map[string]bool{}
	for _, d := range n.Devices() {
		nodes[d.Node] = true
	}
	compare.Equal(t, fmt.Sprintf("number of nodes %v", nodes), 4, len(nodes))
	must.Succeed(t, n.Close())
}

// Open refuses a directory that is neither empty nor the directory of a node, or that another user can change.
func TestOpenRefuses(t *testing.T) {
	make := func(file, text string, mode os.FileMode) string {
		dir := filepath.Join(t.TempDir(), "node")
		must.Succeed(t, os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600), os.Chmod(dir, mode))
		return dir
	}
	for _, tt := range []struct{ dir, want string }{
		{make("letter", "", 0o700), "found letter and no node.json"},
		{make("letter", "", 0o700) + "/letter", "want a directory"},
		{make("lock", "", 0o777), "want it not writable"},
		{"/", "want"},
		{make("node.json", "{", 0o700), "node.json: unexpected end of JSON input; remove its directory"},
		{make("node.json", `{"Version":2}`, 0o700), "node.json: found version 2, want 1; remove its directory"},
	} {
		compare.Error(t, tt.dir, tt.want, compare.ErrorOf(simnode.Open(t.Context(), tt.dir)))
	}
}

// The files of an empty node are created again if the process was killed before it had created all.
func TestKilledEarly(t *testing.T) {
	n := open(t, filepath.Join(t.TempDir(), "node"))
	whole := files(t, n.Sys)
	must.Succeed(t, n.Close(), os.RemoveAll(n.CardDir(".")))
	n = open(t, filepath.Dir(n.Sys))
	compare.Values(t, "opened again", whole, files(t, n.Sys))
	must.Succeed(t, n.Close())
}
