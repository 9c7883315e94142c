package simnode_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Each way to break a device gives it the reason, and Heal restores all files, except counters.
func TestBreakAndHeal(t *testing.T) {
	broken := map[string]bool{}
	for _, tt := range []struct{ board, device, card string }{
		{"two-ports", "01:00.0-p1", address},
		{"n6001-vfs", "01:00.2", "0000:01:00.2"},
		{"one-group", "01:00.0", address},
		{"u250", "01:00.1", "0000:01:00.1"},
		{"aws-f2", "01:00.0", address},
	} {
		n := open(t, filepath.Join(t.TempDir(), "node"))
		must.Succeed(t, n.PlugBoard(named(tt.board), address))
		root := filepath.Dir(n.Sys)
		unit := func() inventory.Unit {
			units := read(t, root, tt.card).Units
			return units[len(units)-1]
		}
		for _, b := range simnode.Breaks {
			whole, nodes, before := files(t, n.Sys), names(t, n.Dev), unit().Counters
			if err := n.Break(tt.device, b.Reason); err != nil {
				continue // TestBreakRefuses
			}
			n = reopen(t, n)
			found := false
			for _, c := range unit().Conditions {
				found = found || strings.HasPrefix(c.Reason, b.Reason)
			}
			if b.Reason == "aer-fatal" {
				found, whole = !cmp.Equal(before, unit().Counters), files(t, n.Sys)
			}
			if !found {
				t.Errorf("%s %s: found %v", tt.board, b.Reason, unit().Conditions)
			}
			broken[b.Reason] = true
			must.Succeed(t, n.Heal(tt.device))
			compare.Values(t, fmt.Sprintf("%s %s healed", tt.board, b.Reason), whole, files(t, n.Sys))
			compare.Values(t, fmt.Sprintf("%s %s healed: nodes", tt.board, b.Reason), nodes, names(t, n.Dev))
		}
		must.Succeed(t, n.Close())
	}
	for _, b := range simnode.Breaks {
		if !broken[b.Reason] {
			t.Errorf("%s: no board has it", b.Reason)
		}
	}
}

func TestBreakRefuses(t *testing.T) {
	n := newNode(t)
	must.Succeed(t, n.PlugBoard(named("vf"), address), n.PlugBoard(named("n6001-vfs"), "0000:03:00.0"),
		n.PlugBoard(named("u250"), "0000:04:00.0"), n.Plug(on("0000:05:00.1", "xocl", "")), n.Plug(on("0000:06:00.1", "xocl", "")), n.BeginReset("0000:06:00.1"),
		n.PlugBoard(named("aws-f2"), "0000:07:00.0"), n.PlugBoard(named("aws-f2"), "0000:08:00.0"), n.Break("08:00.0", "loading"))
	for _, tt := range []struct{ device, reason, want string }{
		{"01:00.0-p1", "port-ap6", "want a port of the card, which has 1"},
		{"01:00.0-p", "port-ap6", "want a card BB:DD.F"},
		{"01:00.0-p-1", "port-ap6", "want a port of the card"},
		{"dfl-port.0", "port-ap6", "want a card BB:DD.F"},
		{"02:00.0", "port-ap6", "slot 0000:02:00.0 is empty"},
		{"01:00.0", "fire", `found "fire", want one of port-ap6, `},
		{"03:00.1", "port-ap6", "want one of pci-gone, aer-fatal, group-not-viable, node-missing"},
		{"03:00.1", "group-not-viable", "alone in its group"},
		{"03:00.1-p0", "pci-gone", "want a port of the card, which has 0"},
		{"01:00.0", "group-not-viable", "want one of port-ap6, "},
		{"04:00.1", "port-ap6", "want one of device-offline, device-bad-state, management-not-ready, firewall-tripped, resetting, pci-gone, aer-fatal, node-missing"},
		{"04:00.0", "pci-gone", "want the user function"},
		{"05:00.1", "firewall-tripped", "without management function"},
		{"06:00.1", "device-offline", "is being reset"},
		{"06:00.1", "node-missing", "is being reset"},
		{"07:00.0", "node-missing", "want one of loading, not-rescanned, pci-gone, aer-fatal"},
		{"07:00.1", "pci-gone", "want the application function"},
		{"07:00.0-p0", "pci-gone", "want a port of the card, which has 0"},
		{"08:00.0", "not-rescanned", "whose application function is missing"},
		{"08:00.0", "pci-gone", "whose application function is missing"},
		{"01:00.1", "fme-fatal", "a virtual function, which has no FME, want 0000:01:00.0"},
	} {
		compare.Error(t, fmt.Sprintf("break %s %s", tt.device, tt.reason), tt.want, n.Break(tt.device, tt.reason))
	}
}

// Each board is complete, and a board whose slot is taken is not plugged in part.
func TestBoards(t *testing.T) {
	n := newNode(t)
	for _, b := range simnode.Boards {
		must.Succeed(t, n.PlugBoard(b, address))
		for _, d := range n.Devices() {
			want := max(b.Card.Ports, 1) // without ports: an IOMMU group, or an AWS card
			if r := read(t, filepath.Dir(n.Sys), d.Address); len(r.Units) != want || len(r.Units[d.Port].Conditions) > 0 {
				t.Errorf("%s: %+v, want %d good devices", b.Name, r.Units, want)
			}
		}
		must.Succeed(t, n.Unplug(address))
	}
	must.Succeed(t, n.PlugBoard(named("pac-a10"), "0000:01:00.1"))
	if err := n.PlugBoard(named("vf"), address); err == nil || len(n.Devices()) != 1 {
		t.Errorf("slot of the virtual function is taken: %v, devices %v", err, n.Devices())
	}
	for _, bad := range []string{"01:00.0", "0000:01:00.8", "../x", "0000:0A:00.0"} {
		compare.Error(t, fmt.Sprintf("slot %s", bad), "", n.PlugBoard(named("pac-a10"), bad))
	}
	compare.Error(t, "a physical function that is not function 0", "", n.PlugBoard(named("vf"), "0000:02:00.3"))
}
