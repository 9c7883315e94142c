package simnode_test

import (
	"errors"
	"fmt"
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
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const address = "0000:01:00.0"

var card = simnode.Card{
	Address: address, Ports: 1, NUMANode: -1,
	AFUID: "d8424dc4a4a3c413f89e433683f9040b", InterfaceID: "69528db6eb31577a8c3668f9faa081f6",
}

func newNode(t *testing.T, cards ...simnode.Card) *simnode.Node {
	t.Helper()
	n := must.Value(simnode.New(t.TempDir()))(t)
	for _, c := range cards {
		must.Succeed(t, n.Plug(c))
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
	must.Succeed(t, err)
	return r
}

// Inventory reads a simulated card as it reads the recording of the same card.
func TestReadsLikeTheKernel(t *testing.T) {
	recorded := t.TempDir()
	must.Succeed(t, board.Unfold(recorded, "../../testdata/sysfs/kernel-6.1-one-card.txtar"))
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
	numbers := regexp.MustCompile(`(region|dfl-[a-z-]+\.|dfl_dev\.|bmc-[a-z-]+\.|auto/hwmon/hwmon)\d+`)
	all := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		relative, _ := filepath.Rel(dir, path)
		all[numbers.ReplaceAllString(relative, "${1}N")] = true
		return err
	})
	must.Succeed(t, err)
	return all
}

// All files of a simulated card also exist in the recording of the same card. The files of its board's controller exist
// in the recording of an N6001.
func TestNamesLikeTheKernel(t *testing.T) {
	want := map[string]bool{}
	for _, file := range []string{"testdata/sysfs/kernel-6.1-one-card", "internal/sensors/testdata/n6001"} {
		recorded := t.TempDir()
		must.Succeed(t, board.Unfold(recorded, "../../"+file+".txtar"))
		maps.Copy(want, names(t, recorded+"/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region"))
	}
	n := newNode(t, card)
	got := names(t, n.CardDir(address)+"/fpga_region")
	for name := range got {
		if !want[name] {
			t.Errorf("%s: found in the simulated card, want it in the recording", name)
		}
	}
}

func TestRefusals(t *testing.T) {
	n := newNode(t, card)
	compare.Error(t, "two cards in a slot", "", n.Plug(card))
	compare.Error(t, "pull from an empty slot", "", n.Unplug("0000:02:00.0"))
	for _, id := range []string{"8086", "8086:09c4:8086", "8086:09c4:8086:0000:0", "8086:9c4:8086:0000", "8086:09c4:8086:+000", "8086:09c4:8086:000g"} {
		compare.Error(t, fmt.Sprintf("PCI id %q", id), "", n.Plug(simnode.Card{Address: "0000:02:00.0", PCIID: id}))
	}
}
