package simnode_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// on returns a function on a driver, with an IOMMU group of its own.
func on(address, driver, physFn string) simnode.Card {
	return simnode.Card{Address: address, Group: simnode.OwnGroup, Driver: driver, PhysFn: physFn, NUMANode: -1}
}

func ids(c simnode.Card, pci string) simnode.Card {
	c.PCIID = pci
	return c
}

func inSlotGroup(c simnode.Card) simnode.Card {
	c.Group = simnode.SlotGroup
	return c
}

// Inventory reads simulated functions as it reads the recordings of the same functions, and all files of the
// simulated ones also exist in the recordings. The recorded machine has six other IOMMU groups.
func TestFunctionsLikeTheKernel(t *testing.T) {
	const nvme, others = "1b36:0010:1af4:1100", 6
	for _, tt := range []struct {
		board string
		cards []simnode.Card
		units []string // the functions that have a unit
	}{
		{"vfio-function", []simnode.Card{ids(on("0000:01:00.0", "vfio-pci", ""), "8086:bccf:8086:1771")}, []string{"0000:01:00.0"}},
		{"vfio-vfs", []simnode.Card{
			ids(on("0000:03:00.0", "pci-pf-stub", ""), nvme),
			ids(on("0000:03:00.1", "vfio-pci", "0000:03:00.0"), nvme), ids(on("0000:03:00.2", "vfio-pci", "0000:03:00.0"), nvme),
		}, []string{"0000:03:00.1", "0000:03:00.2"}},
		{"vfio-group", []simnode.Card{
			inSlotGroup(on("0000:01:00.0", "", "")), inSlotGroup(on("0000:01:00.1", "vfio-pci", "")), inSlotGroup(on("0000:01:00.2", "vfio-pci", "")),
		}, []string{"0000:01:00.1"}},
	} {
		recorded := t.TempDir()
		must.Succeed(t, board.Unfold(recorded, "../../testdata/sysfs/kernel-6.1-"+tt.board+".txtar"))
		n := newNode(t, tt.cards...)
		for _, c := range tt.cards { // a recording has no files that are not text
			dirs, err := filepath.Glob(recorded + "/sys/devices/pci0000:00/*/" + c.Address)
			if must.Succeed(t, err); len(dirs) != 1 {
				t.Fatalf("%s: found %v", c.Address, dirs)
			}
			config, err := os.ReadFile(n.CardDir(c.Address) + "/config")
			must.Succeed(t, err, os.WriteFile(dirs[0]+"/config", config, 0o600))
			want, got := names(t, dirs[0]), names(t, n.CardDir(c.Address))
			for name := range got {
				if !want[name] && !strings.Contains(name, "aer_") && !strings.Contains(name, "_link_") {
					t.Errorf("%s: %s %s: found in the simulated function, want it in the recording", tt.board, c.Address, name)
				}
			}
		}
		for _, dir := range []string{"sys/class/vfio", "sys/class/vfio-dev", "sys/bus/pci/drivers/vfio-pci", "dev/vfio"} {
			want, got := names(t, filepath.Join(recorded, dir)), names(t, filepath.Join(filepath.Dir(n.Sys), dir))
			for name := range maps.Clone(want) {
				if number, err := strconv.Atoi(name); err == nil {
					delete(want, name)
					want[strconv.Itoa(number-others)] = true
				}
			}
			compare.Values(t, fmt.Sprintf("%s: %s (-recorded +simulated)", tt.board, dir), want, got)
		}
		for _, address := range tt.units {
			want, got := read(t, recorded, address), read(t, filepath.Dir(n.Sys), address)
			number := must.Value(strconv.Atoi(want.Units[0].Attributes["iommuGroup"]))(t)
			want.Units[0].Attributes["iommuGroup"] = strconv.Itoa(number - others)
			want.Units[0].Nodes = []string{fmt.Sprintf("vfio/%d", number-others)}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(inventory.Unit{}, "Incarnation", "Files", "Counters"),
				cmpopts.IgnoreFields(inventory.Reading{}, "Observed")); diff != "" {
				t.Errorf("%s: reading of %s (-recorded +simulated):\n%s", tt.board, address, diff)
			}
		}
	}
}

// present returns which of these files exist.
func present(n *simnode.Node, all ...string) (found []string) {
	for _, path := range all {
		if _, err := os.Lstat(filepath.Join(filepath.Dir(n.Sys), path)); err == nil {
			found = append(found, path)
		}
	}
	return found
}

// A function that is unbound or pulled while a process uses its group loses its driver at once, and the rest
// when the process ends, as recorded (vfio-unbound-in-use, vfio-unplugged-in-use).
func TestLeavesWhileUsed(t *testing.T) {
	vf := on("0000:01:00.1", "vfio-pci", address)
	const driver, bound, function, node, class, group = "sys/devices/pci0000:00/0000:00:02.0/0000:01:00.1/driver", "sys/bus/pci/drivers/vfio-pci/0000:01:00.1",
		"sys/bus/pci/devices/0000:01:00.1", "dev/vfio/1", "sys/class/vfio/1", "sys/kernel/iommu_groups/1/devices/0000:01:00.1"
	all := []string{driver, bound, function, node, class, group}
	for name, leave := range map[string]func(n *simnode.Node) error{
		"unbound": func(n *simnode.Node) error { return n.SetDriver(vf.Address, "") },
		"pulled":  func(n *simnode.Node) error { return n.Unplug(address) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, on(address, "pci-pf-stub", ""), vf)
			must.Succeed(t, n.Use(vf.Address))
			compare.Values(t, "used", all, present(n, all...))
			must.Succeed(t, leave(n))
			compare.Values(t, "while used", []string{function, node, class, group}, present(n, all...))
			compare.Error(t, "plugged into the same slot", "", n.Plug(vf))
			must.Succeed(t, n.EndUse(vf.Address))
			if name == "unbound" {
				compare.Error(t, "plugged into the same slot", "", n.Plug(vf))
				must.Succeed(t, n.SetDriver(vf.Address, "vfio-pci"))
				compare.Values(t, "bound again", all, present(n, all...))
				return
			}
			compare.Empty(t, "after the use", present(n, append(all, "sys/bus/pci/devices/"+address)...))
		})
	}
}

func TestFunctionRefusals(t *testing.T) {
	n := newNode(t, card, inSlotGroup(on("0000:02:00.0", "vfio-pci", "")), inSlotGroup(on("0000:02:00.1", "vfio-pci", "")))
	must.Succeed(t, n.Use("0000:02:00.0"))
	for name, err := range map[string]error{
		"driver of a card with ports": n.SetDriver(address, "vfio-pci"),
		"driver of an empty slot":     n.SetDriver("0000:03:00.0", "vfio-pci"),
		"driver of a used group":      n.SetDriver("0000:02:00.1", "dfl-pci"),
		"use of a card with ports":    n.Use(address),
		"end of no use":               n.EndUse(address),
		"use without vfio-pci":        n.Use("0000:03:00.0"),
		"PCI ids of a function":       simnode.Card{Address: address, Group: simnode.OwnGroup, PCIID: "x"}.Check(),
	} {
		compare.Error(t, name, "", err)
	}
}
