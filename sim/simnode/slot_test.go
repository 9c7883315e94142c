package simnode_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Inventory reads a simulated AWS card as it reads the recordings: before, while and after an image is loaded. The
// recorded card has one BAR.
func TestSlotLikeTheKernel(t *testing.T) {
	n := newNode(t)
	must.Succeed(t, n.PlugBoard(named("aws-f2"), address))
	for _, tt := range []struct {
		board  string
		change func() error
	}{
		{"aws-card", func() error { return nil }},
		{"aws-loading", func() error { return n.Remove(address) }},
		{"aws-loaded", func() error { return n.Rescan(address, "1d0f:f010:1d0f:1d51") }},
	} {
		must.Succeed(t, tt.change())
		recorded := t.TempDir()
		must.Value(board.UnfoldRecorded(recorded, "../../testdata/sysfs/kernel-6.1-"+tt.board+".txtar"))(t)
		want, got := read(t, recorded, address), read(t, filepath.Dir(n.Sys), address)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(inventory.Unit{}, "Incarnation", "Files", "Counters", "Mounts"),
			cmpopts.IgnoreFields(inventory.Reading{}, "Observed")); diff != "" {
			t.Errorf("%s: reading (-recorded +simulated):\n%s", tt.board, diff)
		}
	}
	mounts := read(t, filepath.Dir(n.Sys), address).Units[0].Mounts
	const dir = "devices/pci0000:00/0000:00:02.0/" + address
	compare.Values(t, "mounts", []string{dir + "/resource0", dir + "/resource4", dir + "/resource4_wc"}, mounts)
}

// A removed function stays removed when the node is opened again, and is pulled with the card.
func TestSlotIsSaved(t *testing.T) {
	const management = "0000:01:00.1"
	n := open(t, filepath.Join(t.TempDir(), "node"))
	must.Succeed(t, n.PlugBoard(named("aws-f2"), address), n.Remove(address))
	n = reopen(t, n)
	compare.Error(t, "application function", "", compare.ErrorOf(os.Lstat(n.CardDir(address))))
	must.Succeed(t, n.Rescan(address, "10ee:7011:10ee:0007"), n.Remove(management))
	n = reopen(t, n)
	must.Succeed(t, n.Rescan(management, ""))
	compare.Equal(t, "ids", "10ee:7011:10ee:0007", read(t, filepath.Dir(n.Sys), address).Units[0].PCIID)
	must.Succeed(t, n.Remove(address), n.Unplug(address))
	if _, err := os.Lstat(n.CardDir(management)); err == nil || len(n.Devices()) > 0 {
		t.Errorf("pulled: found the management function or the devices %v, want none", n.Devices())
	}
	must.Succeed(t, n.PlugBoard(named("aws-f2"), address), n.Close())
}

func TestSlotRefuses(t *testing.T) {
	n := newNode(t, card)
	must.Succeed(t, n.PlugBoard(named("aws-f2"), "0000:04:00.0"), n.Remove("0000:04:00.0"))
	for name, err := range map[string]error{
		"a card of DFL is removed": n.Remove(address),
		"a card of DFL is found":   n.Rescan(address, ""),
		"an empty slot":            n.Rescan("0000:09:00.0", ""),
		"ids":                      n.Rescan("0000:04:00.0", "1d0f"),
		"PCI ids of such a card":   simnode.Card{Address: address, Slot: simnode.Application, PCIID: "x"}.Check(),
	} {
		compare.Error(t, name, "", err)
	}
}
