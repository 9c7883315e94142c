package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/programming/fpga"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	pac      = "69528db6eb31577a8c3668f9faa081f6" // the boards' interface
	nlb      = bits.AFU                           // the first port's AFU
	otherAFU = bits.OtherAFU                      // the second port's AFU
)

// cardNode is a node with simulated cards and bitstreams for them.
type cardNode struct {
	dir string
}

func newCardNode(t *testing.T, boards ...string) cardNode {
	t.Helper()
	n := cardNode{t.TempDir()}
	must.Succeed(t, os.Chmod(n.dir, 0o755))
	for _, name := range boards {
		must.Succeed(t, board.Unfold(n.dir, filepath.Join("../../testdata/sysfs", name+".txtar")))
	}
	for name, data := range map[string][]byte{
		"same.gbs":  bits.GBS(bits.Metadata(pac, nlb), make([]byte, 2048)),
		"new.gbs":   bits.GBS(bits.Metadata(pac, otherAFU), make([]byte, 2048)),
		"other.gbs": bits.GBS(bits.Metadata(bits.Interface, otherAFU), make([]byte, 2048)),
		"new.aocx":  bits.AOCX(bits.Hash, "pac_a10", bits.GBS(bits.Metadata(pac, bits.OpenCL), make([]byte, 2048))),
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(n.dir, name), data, 0o644))
	}
	return n
}

// run runs a command line on the node, whose directory also contains the files.
func (n cardNode) run(t *testing.T, line string) (stdout, stderr string, code int) {
	t.Helper()
	args := []string{"--sysfs-root", n.dir + "/sys", "--dev-root", n.dir + "/dev", "--lock-dir", n.dir + "/lock", "--store", n.dir + "/store"}
	for word := range strings.FieldsSeq(line) {
		if strings.HasSuffix(word, ".gbs") || strings.HasSuffix(word, ".aocx") {
			word = n.dir + "/" + word
		}
		args = append(args, word)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	clean := func(b bytes.Buffer) string { return strings.ReplaceAll(b.String(), n.dir+"/", "") }
	return clean(out), clean(errs), code
}

func TestCards(t *testing.T) {
	n := newCardNode(t, "dfl-vf", "opae-one-card")
	two := newCardNode(t, "kernel-6.1-two-ports")
	released := newCardNode(t, "kernel-6.1-port-released")
	unbound := newCardNode(t, "kernel-6.1-port-unbound")
	dead := newCardNode(t, "kernel-6.1-dead-card")
	noAFU := newCardNode(t, "kernel-6.1-several-functions")
	none := newCardNode(t, "kernel-6.1-no-driver")
	for _, test := range []struct {
		node       cardNode
		line, want string
	}{
		{n, "list-fme", `FME               CARD          DRIVER  INTERFACE                         PORTS
dfl-fme.0         0000:01:00.0  dfl     69528db6eb31577a8c3668f9faa081f6  dfl-port.0
intel-fpga-fme.0  0000:82:00.0  opae    a1b2c3d4e5f60718293a4b5c6d7e8f90  intel-fpga-port.0
`},
		{n, "list-port", `PORT               CARD          NUMBER  DRIVER  AFU                               FME               INTERFACE
dfl-port.0         0000:01:00.0  0       dfl     d8424dc4a4a3c413f89e433683f9040b  dfl-fme.0         69528db6eb31577a8c3668f9faa081f6
dfl-port.1         0000:03:00.0  0       dfl     d8424dc4a4a3c413f89e433683f9040b  dfl-fme.0         69528db6eb31577a8c3668f9faa081f6
intel-fpga-port.0  0000:82:00.0  0       opae    00112233445566778899aabbccddeeff  intel-fpga-fme.0  a1b2c3d4e5f60718293a4b5c6d7e8f90
`},
		{released, "list-fme", `FME        CARD          DRIVER  INTERFACE                         PORTS
dfl-fme.0  0000:01:00.0  dfl     69528db6eb31577a8c3668f9faa081f6  -
`},
		{released, "list-port", "no port of an FPGA card: lspci -k shows cards and their drivers\n"},
		{released, "list-port -o json", "[]\n"},
		{none, "list-fme", "no FME of an FPGA card: lspci -k shows cards and their drivers\n"},
		{none, "list-fme -o json", "[]\n"},
		{unbound, "list-port", `PORT        CARD          NUMBER  DRIVER  AFU        FME        INTERFACE
dfl-port.0  0000:01:00.0  -       dfl     no driver  dfl-fme.0  69528db6eb31577a8c3668f9faa081f6
`},
		{dead, "list-port", `PORT        CARD          NUMBER  DRIVER  AFU              FME        INTERFACE
dfl-port.0  0000:01:00.0  3       dfl     does not answer  dfl-fme.0  69528db6eb31577a8c3668f9faa081f6
`},
		{noAFU, "list-port", `PORT        CARD          NUMBER  DRIVER  AFU  FME        INTERFACE
dfl-port.0  0000:01:00.0  0       dfl     -    dfl-fme.0  98b4d5bc98ba5f4b98d9a2841ccf11b0
`},
		{n, "fmeinfo --device 82:00.0", `Card                      0000:82:00.0
Driver                    opae
FME                       intel-fpga-fme.0
Interface                 a1b2c3d4e5f60718293a4b5c6d7e8f90
Ports                     intel-fpga-port.0
ports_num                 1
thermal_mgmt/temperature  41 °C
`},
		{two, "portinfo --device 01:00.0 --port 1", `Card                0000:01:00.0
Driver              dfl
FME                 dfl-fme.0
Interface           69528db6eb31577a8c3668f9faa081f6
Port                dfl-port.1
Number              1
AFU                 f7df405cbd7acf7222f144b0b93acd18
power_state         0x0
ap1_event           0
ap2_event           0
ltr                 0
errors/errors       0x0
errors/first_error  0x0
`},
		{n, "fpgainfo --device /dev/intel-fpga-port.0", `Card       0000:82:00.0
Driver     opae
FME        intel-fpga-fme.0
Interface  a1b2c3d4e5f60718293a4b5c6d7e8f90
Ports      intel-fpga-port.0
ports_num  1

Port                intel-fpga-port.0
Number              0
AFU                 00112233445566778899aabbccddeeff
power_state         0x0
ap1_event           0
ap2_event           0
ltr                 0
errors/errors       0x0
errors/first_error  0x0
`},
		{n, "pr --device 01:00.0 same.gbs", "port 0 of card 01:00.0 has AFU d8424dc4a4a3c413f89e433683f9040b already, nothing changed: --force programs it again\n"},
		{n, "pr --device 01:00.0 same.gbs --dry-run --max-temperature 47", "port 0 of card 01:00.0 has AFU d8424dc4a4a3c413f89e433683f9040b already, nothing changed: --force programs it again\n"},
		{n, "program new.gbs --device 01:00.0 --dry-run", "dry run, nothing changed: would program port 0 of card 01:00.0 with new.gbs: AFU f7df405cbd7acf7222f144b0b93acd18\n"},
		{n, "program new.gbs --device 01:00.0 --dry-run --quiet", ""},
		{two, "pr new.aocx --device dfl-port.1 --dry-run -o json", `{
  "format": "aocx",
  "interfaceId": "69528db6eb31577a8c3668f9faa081f6",
  "afuId": "18b79ffa2ee54aa096ef4230dafacb5f",
  "size": 2048,
  "hash": "0123456789abcdef0123456789abcdef01234567",
  "board": "pac_a10",
  "path": "new.aocx",
  "pciAddress": "0000:01:00.0",
  "port": "dfl-port.1",
  "portId": 1,
  "programmed": false
}
`},
		// The style of Intel's fpga_tool: flags with a single dash, before the command.
		{n, "-b new.gbs -d /dev/dfl-fme.0 -dry-run pr", "dry run, nothing changed: would program port 0 of card 01:00.0 with new.gbs: AFU f7df405cbd7acf7222f144b0b93acd18\n"},
		{n, "-dry-run -q -b new.gbs -d /dev/dfl-fme.0 pr", ""},
		{n, "-b new.gbs info", `File       new.gbs
Format     gbs
Interface  69528db6eb31577a8c3668f9faa081f6
AFU        f7df405cbd7acf7222f144b0b93acd18
Size       2048 (2.0 KiB)
`},
		{n, "-b new.gbs -dry-run -q install", ""},
		{n, "list -o json", "[]\n"},
		{n, "-b new.gbs -dry-run=false -q install", ""},
		{n, "-force -b new.gbs install", "installed store/69528db6eb31577a8c3668f9faa081f6/f7df405cbd7acf7222f144b0b93acd18.gbs\n"},
	} {
		stdout, stderr, code := test.node.run(t, test.line)
		if diff := cmp.Diff(test.want, stdout); diff != "" || stderr != "" || code != 0 {
			t.Errorf("%s: exit code %d, stderr %q (-want +got):\n%s", test.line, code, stderr, diff)
		}
	}
}

func TestCardsAsJSON(t *testing.T) {
	n := newCardNode(t, "kernel-6.1-two-ports")
	port := map[string]any{
		"id": "01:00.0-p1", "port": "dfl-port.1", "portId": 1.0, "driver": "dfl", "pciAddress": "0000:01:00.0",
		"afuId": "f7df405cbd7acf7222f144b0b93acd18", "interfaceId": pac, "parent": "dfl-fme.0",
	}
	fme := map[string]any{
		"fme": "dfl-fme.0", "driver": "dfl", "pciAddress": "0000:01:00.0", "interfaceId": pac, "ports": []any{"dfl-port.0", "dfl-port.1"},
	}
	stdout, _, _ := n.run(t, "list-port -o json")
	var ports, fmes []map[string]any
	must.Succeed(t, json.Unmarshal([]byte(stdout), &ports))
	compare.Values(t, "second port", []map[string]any{port}, ports[1:])
	compare.Values(t, "id of the first port", "01:00.0", ports[0]["id"])
	stdout, _, _ = n.run(t, "-o json list-fme")
	must.Succeed(t, json.Unmarshal([]byte(stdout), &fmes))
	compare.Values(t, "management nodes", []map[string]any{fme}, fmes)

	stdout, _, _ = n.run(t, "fpgainfo -o json --device 01:00.0")
	var card struct {
		ID  string
		FME struct {
			Attributes map[string]string
		}
		Ports []struct {
			Port       string
			Attributes map[string]string
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(stdout), &card))
	if card.ID != "01:00.0" || card.FME.Attributes["ports_num"] != "2" || card.FME.Attributes["manager state"] != "unknown" ||
		len(card.Ports) != 2 || card.Ports[1].Attributes["errors/errors"] != "0x0" {
		t.Errorf("%+v", card)
	}
}

func TestCardErrors(t *testing.T) {
	n := newCardNode(t, "kernel-6.1-one-card")
	two := newCardNode(t, "kernel-6.1-two-ports")
	none := newCardNode(t)
	vf := newCardNode(t, "kernel-6.1-virtual-function")
	const hot = "too hot: 47 °C (temp1), want less than 47 °C: check the cooling of the node, or use --max-temperature"
	for _, test := range []struct {
		node cardNode
		line string
		code int
		want string
	}{
		{n, "pr", 2, "pr: --device: found none, want a card: accelerator-fpga list-port; FILE: found 0, want one (see accelerator-fpga pr --help)"},
		{n, "pr --device 01:00.0", 2, "pr: FILE: found 0, want one (see accelerator-fpga pr --help)"},
		{n, "pr new.gbs", 2, "pr: --device: found none, want a card: accelerator-fpga list-port (see accelerator-fpga pr --help)"},
		{n, "pr new.gbs -b same.gbs --device 01:00.0", 2, "pr: FILE: found 2, want one (see accelerator-fpga pr --help)"},
		{n, "pr -dryrun new.gbs -d 01:00.0", 2, `pr: invalid argument "01:00.0" for "-d, --device" flag: found a second one after "ryrun", want one (see accelerator-fpga pr --help)`},
		{n, "portinfo", 2, "portinfo: --device: found none, want a card: accelerator-fpga list-port (see accelerator-fpga portinfo --help)"},
		{n, "assign --port 0", 2, "assign: --device: found none, want a card: accelerator-fpga list-port (see accelerator-fpga assign --help)"},
		{n, "assign --device 01:00.0", 2, "assign: --port: found none, want the number of a port: accelerator-fpga list-port (see accelerator-fpga assign --help)"},
		{two, "release --device dfl-port.1 --port 0", 2, "release: --port: found 0 with --device dfl-port.1, want 1 or none (see accelerator-fpga release --help)"},
		{two, "portinfo --device dfl-port.1 --port 0", 1, "portinfo: --port: found 0 with --device dfl-port.1, want 1 or none"},
		{two, "portinfo --device 01:00.0", 1, "portinfo: --port: found none, want one of the 2 ports of card 01:00.0: accelerator-fpga list-port"},
		{two, "pr new.gbs --device 01:00.0", 1, "pr: --port: found none, want one of the 2 ports of card 01:00.0: accelerator-fpga list-port"},
		{two, "pr new.gbs --device 01:00.0 --port 2", 1, "pr: port 2 of card 01:00.0: found none, want one of its ports: 0, 1"},
		{n, "portinfo --device 02:00.0", 1, `portinfo: device "02:00.0": found no FPGA card of this name, want one of 01:00.0`},
		{vf, "fmeinfo --device 02:00.0", 1, "fmeinfo: card 02:00.0: FME: found none: the physical function is not on this node"},
		{n, "list-port --timeout 0s", 2, "list-port: --timeout: found 0s, want more than 0s (see accelerator-fpga list-port --help)"},
		{n, "list-port --lock-dir=", 2, `list-port: --lock-dir: found "", want a directory (see accelerator-fpga list-port --help)`},
		{none, "list-port", 1, "list-port: statfs sys: no such file or directory"},
		{n, "pr other.gbs --device 01:00.0 --dry-run", 1, "pr: card 01:00.0, port 0: other.gbs: found interface " + bits.Interface + ", want " + pac + " of the card"},
		{n, "pr new.gbs --device 01:00.0", 1, "pr: card 01:00.0, port 0: programming: inappropriate ioctl for device: not the node of a driver: a simulated card cannot be programmed"},
		{n, "pr new.gbs --device 01:00.0 --max-temperature 47", 1, "pr: card 01:00.0, port 0: " + hot},
		{n, "pr new.gbs --device 01:00.0 --max-temperature 47 --dry-run", 1, "pr: card 01:00.0, port 0: " + hot},
		{n, "pr new.gbs --device 01:00.0 --max-temperature 0", 2, `pr: invalid argument "0" for "--max-temperature" flag: want 1 to 150, board or off (see accelerator-fpga pr --help)`},
		{n, "pr new.gbs --device 01:00.0 --max-temperature 151", 2, `pr: invalid argument "151" for "--max-temperature" flag: want 1 to 150, board or off (see accelerator-fpga pr --help)`},
		{n, "pr new.gbs --device 01:00.0 --max-temperature NaN", 2, `pr: invalid argument "NaN" for "--max-temperature" flag: want 1 to 150, board or off (see accelerator-fpga pr --help)`},
		{n, "hook --device 01:00.0 --max-temperature=", 2, `hook: invalid argument "" for "--max-temperature" flag: want 1 to 150, board or off (see accelerator-fpga hook --help)`},
		{two, "release --device dfl-port.1", 1, "release: card 01:00.0, port 1: release: inappropriate ioctl for device: not the node of a driver: a simulated card cannot be programmed"},
		{n, "assign --device dfl-fme.0 -p 1", 1, "assign: card 01:00.0, port 1: assign: inappropriate ioctl for device: not the node of a driver: a simulated card cannot be programmed"},
	} {
		stdout, stderr, code := test.node.run(t, test.line)
		if diff := cmp.Diff("accelerator-fpga "+test.want+"\n", stderr); diff != "" || code != test.code || stdout != "" {
			t.Errorf("%q: exit code %d, want %d; stdout %q; stderr (-want +got):\n%s", test.line, code, test.code, stdout, diff)
		}
	}
}

func TestMoved(t *testing.T) {
	released := movedRow{"0000:01:00.0", 1, "released", false}
	assigned := movedRow{"0000:01:00.0", 1, "assigned", false}
	bound := movedRow{"0000:01:00.0", 1, "assigned", true}
	for _, test := range []struct {
		row    movedRow
		asJSON bool
		want   string
	}{
		{released, false, "released port 1 of card 01:00.0\n"},
		{bound, false, "assigned port 1 of card 01:00.0\n"},
		{assigned, false, "assigned port 1 of card 01:00.0\nthe port has no driver until the driver of the card is bound again: " +
			"for f in unbind bind; do echo 0000:01:00.0 > /sys/bus/pci/drivers/dfl-pci/$f; done\n"},
		{assigned, true, "{\n  \"pciAddress\": \"0000:01:00.0\",\n  \"portId\": 1,\n  \"done\": \"assigned\",\n  \"bound\": false\n}\n"},
	} {
		var out bytes.Buffer
		card := fpga.Card{Address: "0000:01:00.0", Driver: "dfl", FMEAddress: "0000:01:00.0"}
		if err := printMoved(&out, card, test.row, test.asJSON); err != nil || out.String() != test.want {
			t.Errorf("%+v: %v, %q, want %q", test.row, err, out.String(), test.want)
		}
	}
}

// Progress is shown only on a terminal.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		done := progress(&out, true, "programming\x1b[2J")
		time.Sleep(2500 * time.Millisecond) // fake time
		done()
		want := "\rprogramming\\x1b[2J: 0 s\rprogramming\\x1b[2J: 1 s\rprogramming\\x1b[2J: 2 s\r\x1b[K"
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
		out.Reset()
		done = progress(&out, false, "programming")
		time.Sleep(time.Minute)
		if done(); out.Len() > 0 {
			t.Errorf("%q, want nothing", out.String())
		}
	})
}
