package simnode_test

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/aws"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/inventory/vfio"
	"b-com.com/accelerator-device-plugin/inventory/xrt"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/board"
)

const address = "0000:01:00.0"

var card = simnode.Card{
	Address: address, Ports: 1, NUMANode: -1,
	AFUID: "d8424dc4a4a3c413f89e433683f9040b", InterfaceID: "69528db6eb31577a8c3668f9faa081f6",
}

func newNode(t *testing.T, cards ...simnode.Card) *simnode.Node {
	t.Helper()
	n, err := simnode.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cards {
		if err := n.Plug(c); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func read(t *testing.T, root, card string) inventory.Reading {
	t.Helper()
	host := sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
	r, err := dfl.Family(port.PerPort).Read(host, card)
	if errors.Is(err, fs.ErrNotExist) {
		r, err = vfio.Family{}.Read(host, card)
	}
	if errors.Is(err, fs.ErrNotExist) {
		r, err = aws.Family{}.Read(host, card)
	}
	if errors.Is(err, fs.ErrNotExist) {
		r, err = xrt.Family{}.Read(host, card)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Inventory reads a simulated card as it reads the recording of the same card. The recording has been
// trimmed: TestFilesAsInTheKernel compares the files.
func TestReadsLikeTheKernel(t *testing.T) {
	recorded := t.TempDir()
	if err := board.Unfold(recorded, "../../testdata/sysfs/kernel-6.1-one-card.txtar"); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, card)
	want, got := read(t, recorded, address), read(t, filepath.Dir(n.Sys), address)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(inventory.Unit{}, "Incarnation", "PCIID", "Files", "Counters"),
		cmpopts.IgnoreFields(inventory.Reading{}, "Observed")); diff != "" {
		t.Errorf("reading (-recorded +simulated):\n%s", diff)
	}
}

// names returns the names of the files below dir, without the numbers of the kernel.
func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	numbers := regexp.MustCompile(`(region|dfl-[a-z-]+\.)\d+`)
	all := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		relative, _ := filepath.Rel(dir, path)
		all[numbers.ReplaceAllString(relative, "${1}N")] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// All files of a simulated card also exist in the recording of the same card.
func TestNamesLikeTheKernel(t *testing.T) {
	recorded := t.TempDir()
	if err := board.Unfold(recorded, "../../testdata/sysfs/kernel-6.1-one-card.txtar"); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, card)
	want, got := names(t, recorded+"/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region"), names(t, n.CardDir(address)+"/fpga_region")
	for name := range got {
		if !want[name] {
			t.Errorf("%s: found in the simulated card, want it in the recording", name)
		}
	}
}

// Unplug restores the tree before Plug, and numbers are reused.
func TestUnplugRemovesAll(t *testing.T) {
	n := newNode(t)
	there := func() map[string]bool {
		all := names(t, n.Sys)
		maps.Copy(all, names(t, n.Dev))
		return all
	}
	before := there()
	vf := simnode.Card{Address: "0000:01:00.1", Ports: 1, PhysFn: address, NUMANode: -1, AFUID: card.AFUID}
	for range 2 {
		for _, c := range []simnode.Card{card, vf} {
			if err := n.Plug(c); err != nil {
				t.Fatal(err)
			}
		}
		if got := n.PortNode(vf.Address, 0); got != "dfl-port.1" {
			t.Errorf("node of the second card = %s, want dfl-port.1", got)
		}
		for _, c := range []simnode.Card{vf, card} {
			if err := n.Unplug(c.Address); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(before, there()); diff != "" {
		t.Errorf("tree (-before +after):\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	n := newNode(t, card)
	if err := n.Plug(card); err == nil {
		t.Error("two cards in a slot: no error, want one")
	}
	if err := n.Unplug("0000:02:00.0"); err == nil {
		t.Error("pull from an empty slot: no error, want one")
	}
	for _, id := range []string{"8086", "8086:09c4:8086", "8086:09c4:8086:0000:0", "8086:9c4:8086:0000", "8086:09c4:8086:+000", "8086:09c4:8086:000g"} {
		if err := n.Plug(simnode.Card{Address: "0000:02:00.0", PCIID: id}); err == nil {
			t.Errorf("PCI id %q: no error, want one", id)
		}
	}
}

func TestUnbindAndBind(t *testing.T) {
	n := newNode(t, card)
	if err := n.Unbind(address, 0); err != nil {
		t.Fatal(err)
	}
	got := read(t, filepath.Dir(n.Sys), address)
	want := []inventory.Condition{{Reason: inventory.ReasonDriverUnbound, Health: inventory.Unhealthy}}
	if diff := cmp.Diff(want, got.Units[0].Conditions); diff != "" {
		t.Errorf("unbound (-want +got):\n%s", diff)
	}
	if err := n.Bind(address, 0); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Dir(n.Sys), address); len(got.Units[0].Conditions) != 0 {
		t.Errorf("bound again: %v", got.Units[0].Conditions)
	}
}

// BenchmarkPlug measures plug and pull of a card, which tests do thousands of times.
func BenchmarkPlug(b *testing.B) {
	n, err := simnode.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := n.Plug(card); err != nil {
			b.Fatal(err)
		}
		if err := n.Unplug(card.Address); err != nil {
			b.Fatal(err)
		}
	}
}
