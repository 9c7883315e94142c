package main

import (
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	const second = portAt + portStride
	for _, tc := range []struct {
		request string
		at      uint64
		want    uint64
	}{
		{"error c0 0x4000000000000", portAt + portErrors + 0x10, 1 << 50},
		{"error c0 3 1", second + portErrors + 0x18, 3},
		{"power c0 6", portAt + portStatus, 6 << 8},
		{"power c0 0x12 1", second + portStatus, 2 << 8},
		{"set c0 0x4060 0x400", 0x4060, 0x400},
		{"pr c0 busy", fmePR + prStatus, prCredits | prBusy},
		{"afu c0 deadbeef000102030405060708090a0b 1", second + afuAt + 0x10, 0xdeadbeef00010203},
	} {
		t.Run(tc.request, func(t *testing.T) {
			m := plugged(t, "a10-2p")
			words := strings.Fields(tc.request)
			if _, err := m.request(words[0], words[1:]); err != nil {
				t.Fatal(err)
			}
			if got := reg(m.cards["c0"].functions[0], tc.at); got != tc.want {
				t.Errorf("got %#x, want %#x", got, tc.want)
			}
		})
	}
}

func TestApplyErrors(t *testing.T) {
	for _, tc := range []struct{ request, want string }{
		{"kill", "kill: found no card, want the name of a plugged card"},
		{"kill c1", `card "c1" is not plugged`},
		{"kill c0 now", "kill: found 1 arguments"},
		{"jump c0", `request: found "jump"`},
		{"error c0", "error: found 0 arguments"},
		{"error c0 x", `parsing "x"`},
		{"error c0 1 2", "port: found 2, want a number below 2"},
		{"error c0 1 -1", `port: found "-1"`},
		{"error c0 1 1 1", "error: found 3 arguments"},
		{"afu c0 d8", `GUID: found "d8"`},
		{"afu c0 zzzzbeef000102030405060708090a0b", `parsing "zzzzbeef00010203"`},
		{"set c0 0x4060", "set: found 1 arguments"},
		{"set c0 0x4061 1", "offset: found 0x4061"},
		{"set c0 0x100000 1", "offset: found 0x100000"},
		{"set c0 0xfffffffffffffff8 1", "offset: found"},
		{"pr c0", "pr: found 0 arguments"},
		{"pr c0 asleep", `pr: found "asleep"`},
		{"plug c1 a11 rp0", `model: found "a11"`},
		{"plug c0 a10 rp0", `card "c0" is plugged already`},
		{"plug c.1 a10 rp0", `card: found "c.1", want a name without a dot`},
		{"plug c1 a10", `card "c1" is not plugged`},
	} {
		t.Run(tc.request, func(t *testing.T) {
			words := strings.Fields(tc.request)
			_, err := plugged(t, "a10-2p").request(words[0], words[1:])
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := plugged(t, "a10-vf").request("pr", []string{"c0", "busy"}); err == nil {
		t.Error("pr: no error for a card without FME")
	}
}

// plugged returns a machine without qemu, with one card of the model.
func plugged(t testing.TB, model string) *machine {
	t.Helper()
	c, err := newCard("c0", models[model])
	if err != nil {
		t.Fatal(err)
	}
	c.attached = len(c.functions)
	return &machine{qmp: newQMP(nil), cards: map[string]*card{"c0": c}}
}

// A card is removed when the guest has released all of its functions.
func TestReleased(t *testing.T) {
	m := plugged(t, "n6000")
	for _, id := range []string{"c0.4", "c0.3", "other", "c0.2", "c0.1"} {
		m.qmp.deleted <- id
	}
	if got, err := m.request("cards", nil); err != nil || got != "c0" {
		t.Errorf("got %q, %v; want c0: the guest has not released function 0", got, err)
	}
	m.qmp.deleted <- "c0"
	if got, err := m.request("cards", nil); err != nil || got != "" {
		t.Errorf("got %q, %v; want no card", got, err)
	}
}

func FuzzRequest(f *testing.F) {
	for _, seed := range []string{"error c0 1 1", "set c0 0xffff8 1", "afu c0 deadbeef000102030405060708090a0b", "pr c0 fail", "power c0 -1", "kill c0", "cards", "plug c0 a10 rp0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		verb, rest, _ := strings.Cut(line, " ")
		args := strings.Fields(rest)
		if verb == "unplug" || verb == "plug" && len(args) == 3 && models[args[1]] != nil {
			return // these need qemu
		}
		_, _ = plugged(t, "a10-2p").request(verb, args)
	})
}
