package simnode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Inventory reads a simulated card with XRT as it reads the recording of such a card, and all files of the simulated one
// also exist in the recording. The recorded card has no connection to a management function.
func TestXRTLikeTheKernel(t *testing.T) {
	const user = "0000:01:00.1"
	recorded := t.TempDir()
	must.Value(board.UnfoldRecorded(recorded, "../../testdata/sysfs/kernel-6.12-xrt-card.txtar"))(t)
	c := ids(on(user, "xocl", ""), "10ee:5005:10ee:000e")
	c.VBNV = "xilinx_u250_xdma_201830_2"
	n := newNode(t, c)
	dirs, err := filepath.Glob(recorded + "/sys/devices/pci0000:00/*/" + user)
	if must.Succeed(t, err); len(dirs) != 1 {
		t.Fatalf("found %v", dirs)
	}
	want, got := names(t, dirs[0]), names(t, n.CardDir(user))
	for name := range got {
		if !want[name] && !strings.Contains(name, "aer_") && !strings.Contains(name, "_link_") && name != "iommu_group" {
			t.Errorf("%s: found in the simulated card, want it in the recording", name)
		}
	}
	must.Succeed(t, n.SetFile(n.CardDir(user)+"/rom.u.0/timestamp", "1561465320\n"))
	if diff := cmp.Diff(read(t, recorded, user), read(t, filepath.Dir(n.Sys), user), cmpopts.IgnoreFields(inventory.Unit{}, "Incarnation", "Files", "Counters", "InterfaceIDKnown"),
		cmpopts.IgnoreFields(inventory.Reading{}, "Observed")); diff != "" {
		t.Errorf("reading (-recorded +simulated):\n%s", diff)
	}
}

// A card that is being reset stays bound and has no render node. Afterwards it gets the lowest free one, and perhaps
// another shell.
func TestReset(t *testing.T) {
	const first, second = "0000:01:00.1", "0000:02:00.1"
	n := open(t, t.TempDir())
	must.Succeed(t, n.PlugBoard(named("u250"), "0000:01:00.0"), n.PlugBoard(named("u250"), "0000:02:00.0"))
	before, nodes := files(t, n.Sys), names(t, n.Dev)
	node := func(address string) string {
		name, _ := n.RenderNode(address)
		return name
	}
	if node(first) != "dri/renderD128" || node(second) != "dri/renderD129" {
		t.Fatalf("nodes %q and %q", node(first), node(second))
	}
	must.Succeed(t, n.BeginReset(first), n.BeginReset(second))
	n = reopen(t, n)
	if got := present(n, "sys/bus/pci/drivers/xocl/"+first, "dev/dri", "sys/devices/pci0000:00/0000:00:02.0/"+first+"/drm", "sys/devices/pci0000:00/0000:00:02.0/"+first+"/rom.u.0"); len(got) != 1 {
		t.Errorf("during the reset: found %v, want only the driver", got)
	}
	if c := read(t, filepath.Dir(n.Sys), first).Units[0].Conditions; len(c) != 1 || c[0].Reason != "resetting" {
		t.Errorf("during the reset: %+v", c)
	}
	if n.BeginReset(first) == nil || n.EndReset("0000:01:00.0", "") == nil {
		t.Error("a second reset, or of the management function: no error, want one")
	}
	must.Succeed(t, n.EndReset(second, ""), n.EndReset(first, "xilinx_u250_gen3x16_base_4"))
	n = reopen(t, n)
	compare.Error(t, "the end of no reset", "", n.EndReset(first, ""))
	if node(first) != "dri/renderD129" || node(second) != "dri/renderD128" {
		t.Errorf("nodes %q and %q, want them exchanged", node(first), node(second))
	}
	compare.Equal(t, "shell", "xilinx_u250_gen3x16_base_4", read(t, filepath.Dir(n.Sys), first).Units[0].Attributes["vbnv"])
	must.Succeed(t, n.BeginReset(first), n.BeginReset(second), n.EndReset(first, "xilinx_u250_gen3x16_xdma_shell_4_1"), n.EndReset(second, ""))
	compare.Values(t, "tree", before, files(t, n.Sys))
	compare.Values(t, "nodes", nodes, names(t, n.Dev))
	must.Succeed(t, n.Unplug("0000:01:00.0"), n.Unplug("0000:02:00.0"))
	if entries, err := os.ReadDir(n.Dev); err != nil || len(entries) > 0 {
		t.Errorf("nodes of an empty node: %v, %v", entries, err)
	}
}
