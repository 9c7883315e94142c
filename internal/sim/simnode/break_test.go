package simnode_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/sim/simnode"
)

// Each way to break a device gives it the reason, and Heal restores all files.
func TestBreakAndHeal(t *testing.T) {
	n := open(t, filepath.Join(t.TempDir(), "node"))
	must(t, n.PlugBoard(named("two-ports"), address))
	root := filepath.Dir(n.Sys)
	whole, nodes := files(t, n.Sys), names(t, n.Dev)
	for _, b := range simnode.Breaks {
		must(t, n.Break("01:00.0-p1", b.Reason))
		n = reopen(t, n)
		found := false
		for _, c := range read(t, root, address).Units[1].Conditions {
			found = found || strings.HasPrefix(c.Reason, b.Reason)
		}
		if !found {
			t.Errorf("%s: found %v", b.Reason, read(t, root, address).Units[1].Conditions)
		}
		must(t, n.Heal(address+"-p1"))
		if diff := cmp.Diff(whole, files(t, n.Sys)); diff != "" {
			t.Errorf("%s healed (-before +after):\n%s", b.Reason, diff)
		}
		if diff := cmp.Diff(nodes, names(t, n.Dev)); diff != "" {
			t.Errorf("%s healed: nodes (-before +after):\n%s", b.Reason, diff)
		}
	}
	must(t, n.Close())
}

func TestBreakRefuses(t *testing.T) {
	n := newNode(t)
	must(t, n.PlugBoard(named("vf"), address))
	for _, tt := range []struct{ device, reason, want string }{
		{"01:00.0-p1", "port-ap6", "want a port of the card, which has 1"},
		{"01:00.0-p", "port-ap6", "want a card BB:DD.F"},
		{"01:00.0-p-1", "port-ap6", "want a port of the card"},
		{"dfl-port.0", "port-ap6", "want a card BB:DD.F"},
		{"02:00.0", "port-ap6", "slot 0000:02:00.0 is empty"},
		{"01:00.0", "fire", `found "fire", want one of port-ap6, `},
		{"01:00.1", "fme-fatal", "a virtual function, which has no FME, want 0000:01:00.0"},
	} {
		if err := n.Break(tt.device, tt.reason); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("break %s %s: %v, want an error with %q", tt.device, tt.reason, err, tt.want)
		}
	}
}

// Each board is complete, and a board whose slot is taken is not plugged in part.
func TestBoards(t *testing.T) {
	n := newNode(t)
	for _, b := range simnode.Boards {
		must(t, n.PlugBoard(b, address))
		for _, d := range n.Devices() {
			if r := read(t, filepath.Dir(n.Sys), d.Address); len(r.Units) != b.Card.Ports || len(r.Units[d.Port].Conditions) > 0 {
				t.Errorf("%s: %+v, want %d good ports", b.Name, r.Units, b.Card.Ports)
			}
		}
		must(t, n.Unplug(address))
	}
	must(t, n.PlugBoard(named("pac-a10"), "0000:01:00.1"))
	if err := n.PlugBoard(named("vf"), address); err == nil || len(n.Devices()) != 1 {
		t.Errorf("slot of the virtual function is taken: %v, devices %v", err, n.Devices())
	}
	for _, bad := range []string{"01:00.0", "0000:01:00.8", "../x", "0000:0A:00.0"} {
		if err := n.PlugBoard(named("pac-a10"), bad); err == nil {
			t.Errorf("slot %s: no error, want one", bad)
		}
	}
	if err := n.PlugBoard(named("vf"), "0000:02:00.3"); err == nil {
		t.Error("a physical function that is not function 0: no error, want one")
	}
}
