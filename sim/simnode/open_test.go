package simnode_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// killedIn and killedWith are the variables that pass the directory of a node, and the name of a board, to the
// process that is killed.
const (
	killedIn   = "SIMNODE_KILLED_IN"
	killedWith = "SIMNODE_KILLED_WITH"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedIn); dir != "" {
		fmt.Fprintln(os.Stderr, plugForever(dir, named(os.Getenv(killedWith))))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// plugForever plugs and pulls a card repeatedly, and prints a line before each step.
func plugForever(dir string, board simnode.Board) error {
	n, err := simnode.Open(context.Background(), dir)
	if err != nil {
		return err
	}
	for {
		fmt.Println("plug")
		if err := n.PlugBoard(board, address); err != nil {
			return err
		}
		fmt.Println("pull")
		if err := n.Unplug(address); err != nil {
			return err
		}
	}
}

func named(name string) simnode.Board {
	b, err := simnode.BoardNamed(name)
	if err != nil {
		panic(err)
	}
	return b
}

func open(t *testing.T, dir string) *simnode.Node {
	t.Helper()
	n, err := simnode.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// reopen closes a node and opens it again, as a later process does.
func reopen(t *testing.T, n *simnode.Node) *simnode.Node {
	t.Helper()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, filepath.Dir(n.Sys))
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A later process has the cards and numbers of an earlier one.
func TestOpenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	n := open(t, dir)
	empty := files(t, n.Sys)
	must(t, n.PlugBoard(named("two-ports"), address), n.PlugBoard(named("vf"), "0000:02:00.0"))
	whole, devices := files(t, n.Sys), n.Devices()
	n = reopen(t, n)
	if diff := cmp.Diff(whole, files(t, n.Sys)); diff != "" {
		t.Errorf("opened again (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(devices, n.Devices()); diff != "" {
		t.Errorf("devices (-before +after):\n%s", diff)
	}
	want := []string{"01:00.0 dfl-port.0", "01:00.0-p1 dfl-port.1", "02:00.0 dfl-port.2", "02:00.1 dfl-port.3"}
	var got []string
	for _, d := range n.Devices() {
		got = append(got, d.ID+" "+d.Node)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	must(t, n.Unplug(address))
	n = reopen(t, n)
	if err := n.PlugBoard(named("pac-a10"), "0000:02:00.0"); err == nil || !strings.Contains(err.Error(), "slot 0000:02:00.0: found a card, want an empty slot") {
		t.Errorf("plugged twice: %v", err)
	}
	must(t, n.PlugBoard(named("two-ports"), address), n.Unplug("0000:02:00.0"), n.Unplug(address))
	if diff := cmp.Diff(empty, files(t, n.Sys)); diff != "" {
		t.Errorf("all pulled (-want +got):\n%s", diff)
	}
	must(t, n.Close())
	var left []string
	for _, pattern := range []string{"*", "dev/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		left = append(left, found...)
	}
	for i := range left {
		left[i] = strings.TrimPrefix(left[i], dir+"/")
	}
	if diff := cmp.Diff([]string{"dev", "directories", "lock", "node.json", "sys"}, left); diff != "" {
		t.Errorf("all pulled (-want +got):\n%s", diff)
	}
}

// In a node that was copied from elsewhere, no file is written through a link.
func TestWritesNotThroughLinks(t *testing.T) {
	for _, file := range []string{"node.json.new",
		"sys/devices/pci0000:00/0000:00:02.0/" + address + "/fpga_region/region0/dfl-port.0/errors/errors.new"} {
		dir := filepath.Join(t.TempDir(), "node")
		n := open(t, dir)
		must(t, n.PlugBoard(named("pac-a10"), address), n.Close())
		letter := filepath.Join(t.TempDir(), "letter")
		must(t, os.WriteFile(letter, []byte("dear"), 0o600), os.Symlink(letter, filepath.Join(dir, file)))
		n = open(t, dir)
		if err := errors.Join(n.Break(address, "port-ap6"), n.Unplug(address)); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s is a link: error %v, want one with its path", file, err)
		}
		must(t, n.Close())
		if text, err := os.ReadFile(letter); err != nil || string(text) != "dear" {
			t.Errorf("target of %s: found %q, error %v, want it unchanged", file, text, err)
		}
	}
}

// A directory of a node does not get the inode number of a directory that an earlier process deleted.
func TestInodesAreNotReusedByLaterProcess(t *testing.T) {
	n := open(t, filepath.Join(t.TempDir(), "node"))
	had := map[uint64]bool{}
	for turn := range 5 {
		must(t, n.PlugBoard(named("vf"), address))
		for path, number := range inodes(t, n.CardDir(address)) {
			if had[number] {
				t.Fatalf("turn %d: %s has inode number %d, which a directory had before", turn, path, number)
			}
			had[number] = true
		}
		must(t, n.Unplug(address))
		n = reopen(t, n)
	}
	must(t, n.Close())
}

// The number of directories that occupy inode numbers is bounded.
func TestDirectoriesAreBounded(t *testing.T) {
	root := t.TempDir()
	const keep = 100
	d := simnode.NewDirectories(root, keep)
	for range 10 {
		must(t, d.MakeAndRemove(40))
	}
	all, err := os.ReadDir(root)
	must(t, err)
	if len(all) > keep {
		t.Errorf("%d directories occupy numbers, want at most %d", len(all), keep)
	}
}

// A node can be opened after its process was killed, and its cards can be pulled.
func TestKilled(t *testing.T) {
	for board, turns := range map[string]int{"vf": 12, "n6001-vfs": 6, "u250": 6} {
		t.Run(board, func(t *testing.T) { killed(t, board, turns) })
	}
}

func killed(t *testing.T, board string, turns int) {
	dir := filepath.Join(t.TempDir(), "node")
	n := open(t, dir)
	empty := files(t, n.Sys)
	must(t, n.PlugBoard(named(board), address))
	whole := files(t, n.Sys)
	must(t, n.Unplug(address))
	if board != "vf" {
		empty = files(t, n.Sys) // loading vfio has created a node
	}
	must(t, n.Close())
	partial := 0
	// Whether a process is killed during a step is a matter of chance: after these turns, further ones until one was.
	for turn := 0; turn < turns || partial == 0 && turn < 300; turn++ {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), killedIn+"="+dir, killedWith+"="+board)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		must(t, err, child.Start())
		lines := bufio.NewScanner(out)
		for n := 0; n <= turn%12 && lines.Scan(); n++ {
		}
		must(t, child.Process.Kill())
		_ = child.Wait() // killed

		n := open(t, dir)
		for _, d := range n.Devices() {
			if !d.Partial {
				continue
			}
			partial++
			for action, err := range map[string]error{
				"plug": n.Plug(simnode.Card{Address: d.Address}), "break": n.Break(d.ID, "port-ap6"), "heal": n.Heal(d.ID),
			} {
				if err == nil || !strings.Contains(err.Error(), "pull it first") {
					t.Errorf("%s of a partial card: error %v, want \"pull it first\" in it", action, err)
				}
			}
		}
		if err := n.Unplug(address); err != nil && !strings.Contains(err.Error(), "found no card") {
			t.Fatal(err)
		}
		if diff := cmp.Diff(empty, files(t, n.Sys)); diff != "" {
			t.Fatalf("pulled (-want +got):\n%s", diff)
		}
		must(t, n.PlugBoard(named(board), address))
		if diff := cmp.Diff(whole, files(t, n.Sys)); diff != "" {
			t.Fatalf("plugged again (-want +got):\n%s", diff)
		}
		must(t, n.Unplug(address), n.Close())
	}
	if partial == 0 {
		t.Error("no process was killed during a step, want at least one")
	}
}

// Processes that plug at once wait for each other.
func TestTwoAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	var wait sync.WaitGroup
	for i := range 8 {
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
	if len(nodes) != 8 {
		t.Errorf("nodes %v, want 8", nodes)
	}
	must(t, n.Close())
}

// Open refuses a directory that is neither empty nor that of a node, or that another user can change.
func TestOpenRefuses(t *testing.T) {
	full := t.TempDir()
	must(t, os.WriteFile(full+"/letter", nil, 0o600))
	shared := filepath.Join(t.TempDir(), "shared")
	must(t, os.Mkdir(shared, 0o700), os.Chmod(shared, 0o777))
	below := filepath.Join(shared, "node")
	must(t, os.Mkdir(below, 0o755))
	linked := t.TempDir()
	must(t, os.Symlink(full+"/letter", linked+"/node.json"))
	for _, tt := range []struct{ dir, want string }{
		{full, "found letter and no node.json"},
		{full + "/letter", "want a directory"},
		{shared, "want it not writable"},
		{below, "want it not writable"},
		{linked, "want a regular file"},
		{"/", "want"},
		{"/dev/node", "found in /dev"},
		{"/sys/node", "found in /sys"},
		{"/proc/self/root/dev/node", "found in /proc"},
	} {
		_, err := simnode.Open(t.Context(), tt.dir)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.dir, err, tt.want)
		}
	}
	if text := files(t, full); len(text) != 1 {
		t.Errorf("directory with other files: found %v, want it unchanged", text)
	}
	if os.Geteuid() == 0 {
		other := t.TempDir()
		must(t, os.Chown(other, 65534, 65534))
		if _, err := simnode.Open(t.Context(), other); err == nil || !strings.Contains(err.Error(), "found owner uid 65534") {
			t.Errorf("directory of another user: %v", err)
		}
		own := filepath.Join(t.TempDir(), "node")
		must(t, open(t, own).Close(), os.Chown(own+"/sys/class", 65534, 65534))
		if _, err := simnode.Open(t.Context(), own); err == nil || !strings.Contains(err.Error(), own+"/sys/class: found a directory that another user can change") {
			t.Errorf("directory of another user in the node: %v", err)
		}
	}
}

// A link in place of a directory of the node is not followed.
func TestOpenRefusesLinks(t *testing.T) {
	for _, place := range []string{"dev", "sys", "sys/class", "directories",
		"sys/devices/pci0000:00/0000:00:02.0/" + address, "sys/devices/pci0000:00/0000:00:02.0/" + address + "/fpga_region/region0/dfl-port.0/errors"} {
		dir := filepath.Join(t.TempDir(), "node")
		n := open(t, dir)
		must(t, n.PlugBoard(named("pac-a10"), address), n.Close())
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		must(t, os.Rename(filepath.Join(dir, place), elsewhere), os.Symlink(elsewhere, filepath.Join(dir, place)))
		for range 2 { // it leads somewhere, and nowhere
			want := filepath.Join(dir, place) + ": found Lrwxrwxrwx, want a directory"
			if _, err := simnode.Open(t.Context(), dir); err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", place, err, want)
			}
			must(t, os.RemoveAll(elsewhere))
		}
	}
}

// FuzzRestore checks that a node that is opened from any node.json stays in its directory.
func FuzzRestore(f *testing.F) {
	n, err := simnode.New(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range []simnode.Card{card, {Address: "0000:02:00.1", Ports: 2, PhysFn: address, AFUID: card.AFUID}} {
		if err := n.Plug(c); err != nil {
			f.Fatal(err)
		}
	}
	text, err := n.Saved()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, bad := range []string{"", "{", "[]", `{"Version":2}`, `{"Version":1}{}`, `{"Version":1,"x":1}`, `{"Version":1,"Cards":[null]}`} {
		f.Add([]byte(bad))
	}
	for _, swap := range [][2]string{{address, "../../../../etc"}, {`"PortNumbers":[0]`, `"PortNumbers":[-1]`}, {`"PortNumbers":[0]`, `"PortNumbers":[]`},
		{`"FME":0`, `"FME":1e9`}, {card.AFUID, "../x"}, {`"Address":"0000:02:00.1"`, `"Address":"` + address + `"`}} {
		f.Add([]byte(strings.ReplaceAll(string(text), swap[0], swap[1])))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := simnode.Restore("/node", text)
		if err != nil {
			return
		}
		for _, d := range n.Devices() {
			for _, path := range []string{n.CardDir(d.Address), n.PortDir(d.Address, d.Port), n.FMEDir(d.Address)} {
				if filepath.Dir(filepath.Dir(n.CardDir(d.Address))) != "/node/sys/devices/pci0000:00" || !strings.HasPrefix(path, n.CardDir(d.Address)) {
					t.Errorf("%s: outside of the node", path)
				}
			}
			if filepath.Base(d.Node) != d.Node {
				t.Errorf("node %q: outside of the node", d.Node)
			}
		}
		once, err := n.Saved()
		must(t, err)
		again, err := simnode.Restore("/node", once)
		must(t, err)
		twice, err := again.Saved()
		must(t, err)
		if diff := cmp.Diff(string(once), string(twice)); diff != "" || !json.Valid(once) {
			t.Errorf("saved again (-want +got):\n%s", diff)
		}
	})
}

// Invalid contents of node.json are refused.
func TestRestoreRefuses(t *testing.T) {
	n := newNode(t, card)
	text, err := n.Saved()
	must(t, err)
	for _, swap := range [][2]string{{address, "../../../../etc"}, {`"PortNumbers":[0]`, `"PortNumbers":[-1]`}, {`"PortNumbers":[0]`, `"PortNumbers":[]`},
		{`"FME":0`, `"FME":5000`}, {card.AFUID, "../x"}, {`"HWMon":[0,1]`, `"HWMon":[0,0]`}, {`"Version":1`, `"Version":2`}, {`"Child"`, `"Kid"`},
		{`"PhysFn":""`, `"PhysFn":"` + address + `"`}} {
		changed := strings.ReplaceAll(string(text), swap[0], swap[1])
		if changed == string(text) {
			t.Fatalf("%s: not in %s", swap[0], text)
		}
		if _, err := simnode.Restore("/node", []byte(changed)); err == nil {
			t.Errorf("%s instead of %s is accepted", swap[1], swap[0])
		}
	}
	if _, err := simnode.Restore("/node", text); err != nil {
		t.Error(err)
	}
}
