package fpga_test

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/board"
	"b-com.com/accelerator-device-plugin/programming/fpga"
)

const (
	afu      = "d8424dc4a4a3c413f89e433683f9040b"
	pac      = "69528db6eb31577a8c3668f9faa081f6"
	other    = "9346116d4e4cb66ea1cbe92e1e1f8f5e"
	otherAFU = "bfaf2ae94a5246e382fe38f0f9e17764"
	boards   = "../../testdata/sysfs"
	archives = "../../../shared/recordings" // of real cards; no part of the source
)

// newHost unfolds boards into a host of their own.
func newHost(t *testing.T, boardNames ...string) fpga.Host {
	t.Helper()
	root := t.TempDir()
	for _, name := range boardNames {
		if err := board.Unfold(root, filepath.Join(boards, name+".txtar")); err != nil {
			t.Fatal(err)
		}
	}
	return fpga.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

// lines returns a line for each card.
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
		// A card without AFU header, and functions without port and FME.
		"kernel-6.1-several-functions": {"dfl 0000:01:00.0 fme=dfl-fme.0 at=0000:01:00.0 if=98b4d5bc98ba5f4b98d9a2841ccf11b0 dfl-port.0=0:no such file or directory"},
	} {
		cards, err := fpga.Cards(newHost(t, name))
		if diff := gocmp.Diff(want, lines(cards)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
