package fpga_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/programming/fpga"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	afu      = "d8424dc4a4a3c413f89e433683f9040b"
	pac      = "69528db6eb31577a8c3668f9faa081f6"
	other    = "9346116d4e4cb66ea1cbe92e1e1f8f5e"
	otherAFU = "bfaf2ae94a5246e382fe38f0f9e17764"
	boards   = "../../testdata/sysfs"
)

// newHost creates a host and unpacks boards into it.
func newHost(t *testing.T, boardNames ...string) fpga.Host {
	t.Helper()
	root := t.TempDir()
	for _, name := range boardNames {
		must.Succeed(t, board.Unfold(root, filepath.Join(boards, name+".txtar")))
	}
	return fpga.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

// lines formats cards, one per line.
func lines(cards []fpga.Card) []string {
	var all []string
	for _, c := range cards {
		line := fmt.Sprintf("%s %s fme=%s at=%s if=%s", c.Driver, c.Address, c.FME, c.FMEAddress, c.InterfaceID)
		if c.InterfaceErr != nil {
			line += " ifErr=" + errno(c.InterfaceErr)
		}
		for _, p := range c.Ports {
			line += fmt.Sprintf(" %s=%d:%s", p.Name, p.Number, cmp.Or(p.AFUID, errno(p.AFUErr)))
		}
		all = append(all, line)
	}
	return all
}

func errno(err error) string {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return fmt.Sprint(err)
}

func TestCards(t *testing.T) {
	card := func(bus string, fme, port int) string {
		return fmt.Sprintf("dfl 0000:%s:00.0 fme=dfl-fme.%d at=0000:%[1]s:00.0 if=%[3]s dfl-port.%d=0:%s", bus, fme, pac, port, afu)
	}
	for name, want := range map[string][]string{
		"kernel-6.1-one-card":             {card("01", 0, 0)},
		"kernel-6.1-no-driver":            nil,
		"opae-one-card":                   {"opae 0000:82:00.0 fme=intel-fpga-fme.0 at=0000:82:00.0 if=a1b2c3d4e5f60718293a4b5c6d7e8f90 intel-fpga-port.0=0:00112233445566778899aabbccddeeff"},
		"dfl-vf":                          {card("01", 0, 0), strings.Replace(card("03", 0, 1), "at=0000:03", "at=0000:01", 1)},
		"kernel-6.1-virtual-function":     {card("01", 0, 0), "dfl 0000:02:00.0 fme= at= if= dfl-port.1=0:" + afu},
		"kernel-6.1-two-ports":            {card("01", 0, 0) + " dfl-port.1=1:f7df405cbd7acf7222f144b0b93acd18"},
		"kernel-6.1-two-cards-renumbered": {card("01", 1, 1), strings.NewReplacer(pac, other, afu, otherAFU).Replace(card("02", 0, 0))},
		"kernel-6.1-port-released":        {"dfl 0000:01:00.0 fme=dfl-fme.0 at=0000:01:00.0 if=" + pac},
		"kernel-6.1-port-unbound":         {"dfl 0000:01:00.0 fme=dfl-fme.0 at=0000:01:00.0 if=" + pac + " dfl-port.0=-1:no such file or directory"},
		"kernel-6.1-fme-unbound":          {strings.Replace(card("01", 0, 0), pac, "", 1)},
		"kernel-6.1-dead-card":            {strings.NewReplacer("=0:"+afu, "=3:"+strings.Repeat("f", 32)).Replace(card("01", 0, 0))},
		// A card without an AFU header, and functions without a port or an FME.
		"kernel-6.1-several-functions": {"dfl 0000:01:00.0 fme=dfl-fme.0 at=0000:01:00.0 if=98b4d5bc98ba5f4b98d9a2841ccf11b0 dfl-port.0=0:no such file or directory"},
	} {
		cards, err := fpga.Cards(newHost(t, name))
		if diff := gocmp.Diff(want, lines(cards)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestFind(t *testing.T) {
	h := newHost(t, "kernel-6.1-two-cards-renumbered", "opae-one-card")
	vf := newHost(t, "dfl-vf")
	ports := newHost(t, "kernel-6.1-two-ports")
	for _, test := range []struct {
		host       fpga.Host
		name       string
		card, port string // port "": the name isn't a port's
	}{
		{h, "0000:01:00.0", "0000:01:00.0", ""},
		{h, "02:00.0", "0000:02:00.0", ""},
		{h, "82:00.0-p0", "0000:82:00.0", "intel-fpga-port.0"},
		{h, "dfl-fme.1", "0000:01:00.0", ""},
		{h, "/dev/dfl-fme.1", "0000:01:00.0", ""},
		{h, h.Dev + "/dfl-fme.0", "0000:02:00.0", ""},
		{h, "dfl-port.1", "0000:01:00.0", "dfl-port.1"},
		{h, "/dev/intel-fpga-port.0", "0000:82:00.0", "intel-fpga-port.0"},
		{h, "intel-fpga-fme.0", "0000:82:00.0", ""},
		{ports, "01:00.0-p1", "0000:01:00.0", "dfl-port.1"},
		{ports, "01:00.0", "0000:01:00.0", ""},
		{vf, "dfl-fme.0", "0000:01:00.0", ""},
		{vf, "03:00.0", "0000:03:00.0", ""},
		{vf, "dfl-port.1", "0000:03:00.0", "dfl-port.1"},
	} {
		card, port, err := fpga.Find(test.host, test.name)
		name := ""
		if port != nil {
			name = port.Name
		}
		if err != nil || card.Address != test.card || name != test.port {
			t.Errorf("%s: %s, %q, %v, want %s, %q", test.name, card.Address, name, err, test.card, test.port)
		}
	}
	for _, test := range []struct {
		host       fpga.Host
		name, want string
	}{
		{h, "03:00.0", `device "03:00.0": found no FPGA card of this name, want one of 01:00.0, 02:00.0, 82:00.0`},
		{h, "", `device "": found no FPGA card of this name, want one of 01:00.0`},
		{h, "dfl-fme.7", `device "dfl-fme.7": found no FPGA card`},
		{h, "/dev/../dev/dfl-fme.0", "no FPGA card"},
		{h, "01:00.0-p", "no FPGA card"},
		{h, "01:00.0-p-1", "no FPGA card"},
		{ports, "01:00.0-p2", "port 2 of card 01:00.0: found none, want one of its ports: 0, 1"},
		{newHost(t, "kernel-6.1-no-driver"), "01:00.0", `device "01:00.0": found no FPGA card, want one with the driver dfl-pci or intel-fpga-pci: lspci -k`},
		{newHost(t), "01:00.0", "found no FPGA card, want one with the driver"},
	} {
		if _, _, err := fpga.Find(test.host, test.name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// Find doesn't read other cards' attributes, because those cards may not respond. The test uses a FIFO without a
// writer, so that opening it for reading blocks.
func TestFindReadsOneCard(t *testing.T) {
	h := newHost(t, "kernel-6.1-one-card", "opae-one-card")
	afuID := h.Sys + "/class/fpga/intel-fpga-dev.0/intel-fpga-port.0/afu_id"
	must.Succeed(t, os.Remove(afuID), syscall.Mkfifo(afuID, 0o600))
	if card, _, err := fpga.Find(h, "dfl-fme.0"); err != nil || card.Address != "0000:01:00.0" {
		t.Errorf("%v, %v", card, err)
	}
}

// Broken entries belong to cards that are just appearing or disappearing.
func TestCardsComeAndGo(t *testing.T) {
	h := newHost(t, "kernel-6.1-one-card")
	class := h.Sys + "/class/fpga_region"
	for name, target := range map[string]string{"region7": "../../devices/gone", "region8": "region8", "region9": "../../../dev/dfl-fme.0"} {
		must.Succeed(t, os.Symlink(target, filepath.Join(class, name)))
	}
	cards, err := fpga.Cards(h)
	if err != nil || len(cards) != 1 {
		t.Errorf("%v, %v, want one card", lines(cards), err)
	}
}

func TestID(t *testing.T) {
	for address, want := range map[string]string{"0000:3b:00.0": "3b:00.0", "10000:3b:00.0": "10000:3b:00.0", "0001:3b:00.0": "0001:3b:00.0"} {
		compare.Equal(t, "id of "+address, want, (fpga.Card{Address: address}).ID())
	}
}

// FuzzParseAddress checks that parsing the ID of a parsed address returns the same address.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"3b:00.0", "0000:3B:00.0-p1", "10000:3b:00.0", "3b:00.0-p256", "-p1", "3b:00.0-p1-p2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, number := fpga.ParseAddress(s)
		if address == "" {
			if number >= 0 {
				t.Errorf("%q: number %d without address", s, number)
			}
			return
		}
		again := fpga.Card{Address: address}.ID()
		if number >= 0 {
			again += fmt.Sprintf("-p%d", number)
		}
		if a, n := fpga.ParseAddress(again); a != address || n != number {
			t.Errorf("%q: %s, %d; %s: %s, %d", s, address, number, again, a, n)
		}
	})
}
