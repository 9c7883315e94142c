package simnode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

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

// A card that is pulled and plugged again has good values in all files, even if another program has written to them in
// place, as a shell does.
func TestPluggedAgainIsGood(t *testing.T) {
	other := card
	other.Address = "0000:02:00.0"
	n := newNode(t, card, other)
	good, whole := files(t, n.Sys), files(t, n.CardDir(other.Address))
	for name := range good {
		if strings.Contains(name, address) && !strings.HasSuffix(name, "->") {
			must.Succeed(t, os.WriteFile(filepath.Join(n.Sys, name), []byte("bad"), 0o600))
		}
	}
	compare.Values(t, "the other card", whole, files(t, n.CardDir(other.Address)))
	for _, err := range []error{n.SetFME(address, "errors/fme_errors", "0x1"), n.Unplug(address), n.Plug(card)} {
		must.Succeed(t, err)
	}
	compare.Values(t, "tree", good, files(t, n.Sys))
}
