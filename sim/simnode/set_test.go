package simnode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// Each Set function changes only one file of its card.
func TestSetters(t *testing.T) {
	other := card
	other.Address = "0000:02:00.0"
	const fme = "0000:01:00.0/fpga_region/region0/dfl-fme.0/"
	const ones = "\xff\xff\xff\xff"
	for _, tc := range []struct {
		name string
		set  func(*simnode.Node) error
		file string // below the root port
		want string
	}{
		{"port", func(n *simnode.Node) error { return n.Set(address, 0, "power_state", "0x6") },
			"0000:01:00.0/fpga_region/region0/dfl-port.0/power_state", "0x6\n"},
		{"FME", func(n *simnode.Node) error { return n.SetFME(address, "errors/catfatal_errors", "0x400") },
			fme + "errors/catfatal_errors", "0x400\n"},
		{"FME, a new file", func(n *simnode.Node) error { return n.SetFME(address, "cache_size", "0") }, fme + "cache_size", "0\n"},
		{"file", func(n *simnode.Node) error { return n.SetFile(n.CardDir(address)+"/config", ones) }, "0000:01:00.0/config", ones},
		{"AER", func(n *simnode.Node) error {
			return n.SetFile(n.CardDir(address)+"/aer_dev_nonfatal", simnode.AER("NONFATAL", 7)+"\n")
		},
			"0000:01:00.0/aer_dev_nonfatal", fmt.Sprintf(uncorrectable, 7, "NONFATAL")},
		{"AER, correctable", func(n *simnode.Node) error {
			return n.SetFile(n.CardDir(address)+"/aer_dev_correctable", simnode.AER("COR", 3)+"\n")
		},
			"0000:01:00.0/aer_dev_correctable", strings.NewReplacer("BadDLLP 0", "BadDLLP 3", "COR 0", "COR 3").Replace(correctable)},
		{"reprogrammed", func(n *simnode.Node) error { return n.Reprogram(address, 0, strings.Repeat("a", 32)) },
			"0000:01:00.0/fpga_region/region0/dfl-port.0/afu_id", strings.Repeat("a", 32) + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, card, other)
			root := filepath.Dir(n.CardDir(address))
			want := files(t, root)
			if err := tc.set(n); err != nil {
				t.Fatal(err)
			}
			want[tc.file] = tc.want
			if diff := cmp.Diff(want, files(t, root)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettersRefuse(t *testing.T) {
	const empty = "0000:02:00.0"
	vf := simnode.Card{Address: "0000:01:00.1", Ports: 1, PhysFn: address, AFUID: card.AFUID}
	n := newNode(t, card, vf)
	for _, tc := range []struct {
		name string
		err  error
	}{
		{"port of an empty slot", n.Set(empty, 0, "id", "0")},
		{"port that does not exist", n.Set(address, 1, "id", "0")},
		{"negative port", n.Set(address, -1, "id", "0")},
		{"AFU of an empty slot", n.Reprogram(empty, 0, card.AFUID)},
		{"FME of an empty slot", n.SetFME(empty, "errors/fme_errors", "0x0")},
		{"file of an empty slot", n.SetFile(n.CardDir(empty)+"/config", "")},
		{"FME of a virtual function", n.SetFME(vf.Address, "errors/fme_errors", "0x0")},
	} {
		if tc.err == nil || !strings.HasPrefix(tc.err.Error(), "simulated node: ") {
			t.Errorf("%s: %v, want an error", tc.name, tc.err)
		}
	}
}

// A card that is pulled and plugged again has good values in all files, also if another program has
// written to them in place, as a shell does.
func TestPluggedAgainIsGood(t *testing.T) {
	other := card
	other.Address = "0000:02:00.0"
	n := newNode(t, card, other)
	good, whole := files(t, n.Sys), files(t, n.CardDir(other.Address))
	for name := range good {
		if strings.Contains(name, address) && !strings.HasSuffix(name, "->") {
			if err := os.WriteFile(filepath.Join(n.Sys, name), []byte("bad"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(whole, files(t, n.CardDir(other.Address))); diff != "" {
		t.Errorf("the other card (-before +after):\n%s", diff)
	}
	for _, err := range []error{n.SetFME(address, "errors/fme_errors", "0x1"), n.Unplug(address), n.Plug(card)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(good, files(t, n.Sys)); diff != "" {
		t.Errorf("tree (-before +after):\n%s", diff)
	}
}
