package dfl_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// ignore ignores the fields that are tested in package port.
var ignore = cmp.Options{familytest.Ignore, cmpopts.IgnoreFields(inventory.Unit{}, "NodeNumbers")}

const (
	afuA = "d8424dc4a4a3c413f89e433683f9040b"
	afuB = "bfaf2ae94a5246e382fe38f0f9e17764"
	pac  = "69528db6eb31577a8c3668f9faa081f6"
)

func unhealthy(reason string) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: inventory.Unhealthy}
}

// row returns an unhealthy condition for the row with this name.
func row(reason string) inventory.Condition {
	c := unhealthy(reason)
	c.Row = reason
	return c
}

// portOf returns a healthy port that belongs to dfl-fme.0, after applying the changes.
func portOf(name string, id int, afu string, changes ...func(*inventory.Unit)) inventory.Unit {
	p := inventory.Unit{
		Name: name, Facts: inventory.Facts{PortID: id, AFUID: afu, InterfaceID: pac, NUMANode: -1, Nodes: []string{name}, Parent: "dfl-fme.0", ParentNodes: []string{"dfl-fme.0"}},
		PortIDKnown: true, AFUIDKnown: true, InterfaceIDKnown: true,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

// a10 sets the PCI ID of the first card on the recorded boards.
func a10(p *inventory.Unit) { p.PCIID = "8086:09c4:8086:0000" }

// d5005 sets the IDs of the second card on the recorded boards.
func d5005(p *inventory.Unit) {
	p.PCIID, p.AFUID, p.InterfaceID = "8086:0b2b:8086:138d", afuB, "9346116d4e4cb66ea1cbe92e1e1f8f5e"
}

func fme(name string) func(*inventory.Unit) {
	return func(p *inventory.Unit) { p.Parent, p.ParentNodes = name, []string{name} }
}

// withoutFME removes everything that comes from the FME.
func withoutFME(p *inventory.Unit) {
	p.InterfaceID, p.Parent, p.ParentNodes = "", "", nil
}

func unbound(p *inventory.Unit) {
	p.PortID, p.PortIDKnown, p.AFUID, p.AFUIDKnown = -1, false, "", false
	p.Conditions = []inventory.Condition{unhealthy("driver-unbound")}
}

type cards = familytest.Readings

func one(units ...inventory.Unit) []inventory.Unit { return units }

func readAll(t *testing.T, host sysfs.Host) cards {
	t.Helper()
	all, _ := familytest.ReadAll(t, host, dfl.Family(port.PerPort))
	return all
}

func TestBoards(t *testing.T) {
	numa := func(n int) func(*inventory.Unit) { return func(p *inventory.Unit) { p.NUMANode = n } }
	ofs := portOf("dfl-port.0", 0, "", numa(0), func(p *inventory.Unit) {
		p.InterfaceID = "0c1d2e3f405162738495a6b7c8d9eafb"
	})
	shutDown := func(p *inventory.Unit) {
		p.Conditions = []inventory.Condition{row("port-ap6"), row("power-throttled=6")}
	}
	first := portOf("dfl-port.0", 0, afuA)
	recorded := portOf("dfl-port.0", 0, afuA, a10)
	vf := portOf("dfl-port.1", 0, afuA)
	vf.Attributes = map[string]string{"physicalFunction": "0000:01:00.0", "virtualFunction": "0"}
	for _, tt := range []struct {
		board string // can be two boards, to have both drivers on one node
		want  cards
	}{
		{"kernel-6.1-one-card", cards{"0000:01:00.0": one(recorded)}},
		{"kernel-6.1-two-cards", cards{
			"0000:01:00.0": one(recorded),
			"0000:02:00.0": one(portOf("dfl-port.1", 0, afuB, fme("dfl-fme.1"), a10, d5005)),
		}},
		{"dfl-vf", cards{"0000:01:00.0": one(first), "0000:03:00.0": one(vf)}},
		{"dfl-two-ports", cards{"0001:3b:00.0": one(
			portOf("dfl-port.9", 0, afuA, numa(1)),
			portOf("dfl-port.10", 1, afuB, numa(1)),
		)}},
		{"dfl-multi-function", cards{
			"0000:17:00.0": one(ofs), "0000:17:00.1": nil, "0000:17:00.2": nil, "0000:17:00.4": nil,
		}},
		{"kernel-6.1-port-ap6", cards{"0000:01:00.0": one(portOf("dfl-port.0", 0, afuA, shutDown, a10))}},
		{"kernel-6.1-port-assigned", cards{"0000:01:00.0": one(portOf("dfl-port.0", 0, "", unbound, a10))}},
		{"kernel-6.1-one-card opae-one-card", cards{"0000:01:00.0": one(recorded)}},
		{"opae-one-card", cards{}},
	} {
		t.Run(tt.board, func(t *testing.T) {
			compare.Values(t, "cards", tt.want, readAll(t, familytest.Node(t, strings.Fields(tt.board)...)), ignore)
		})
	}
}

// script changes a tree. Each line is an rm, mkdir, mv, write or link command, with paths relative to the host's sysfs
// root. In a link's target, $SYS stands for that root.
func script(t *testing.T, host sysfs.Host, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		path := filepath.Join(host.Sys, f[1])
		var err error
		switch f[0] {
		case "rm":
			err = os.RemoveAll(path)
		case "mkdir":
			err = os.MkdirAll(path, 0o755)
		case "mv":
			err = os.Rename(path, filepath.Join(host.Sys, f[2]))
		case "write":
			err = errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(strings.Join(f[2:], " ")+"\n"), 0o644))
		case "link":
			err = errors.Join(os.RemoveAll(path), os.Symlink(strings.ReplaceAll(f[2], "$SYS", host.Sys), path))
		default:
			t.Fatalf("script: %q", line)
		}
		must.Succeed(t, err)
	}
}

func TestTree(t *testing.T) {
	const dev = "devices/pci0000:00/0000:00:01.0/0000:01:00.0"
	first := portOf("dfl-port.0", 0, afuA, a10)
	noInterface := portOf("dfl-port.0", 0, afuA, func(p *inventory.Unit) { p.InterfaceID = "" }, a10)
	unknownInterface := func(c inventory.Condition) inventory.Unit {
		return portOf("dfl-port.0", 0, afuA, func(p *inventory.Unit) {
			p.InterfaceID, p.InterfaceIDKnown, p.Conditions = "", false, []inventory.Condition{c}
		}, a10)
	}
	deadFME := unknownInterface(inventory.Condition{
		Reason: "fme-dead", Health: inventory.Unhealthy, Row: "fme-dead", Dead: true,
	})
	noID := unknownInterface(inventory.Condition{
		Reason: "unreadable=fme/compat_id", Health: inventory.Degraded, Row: "fme-dead",
	})
	noFME := portOf("dfl-port.0", 0, afuA, withoutFME, a10)
	const region = dev + "/fpga_region/region0"
	const compat = region + "/dfl-fme.0/dfl-fme-region.1/fpga_region/region1/compat_id"
	for _, tt := range []struct {
		name   string
		script string
		want   cards
	}{
		{"stray directory in the class", "mkdir class/fpga_region/region7/dfl-port.7", cards{"0000:01:00.0": one(first)}},
		{"class entry is a directory", "rm class/fpga_region/region0\nmkdir class/fpga_region/region0", cards{}},
		{"dangling and circular class links", "link class/fpga_region/region5 ../nowhere\n" +
			"link class/fpga_region/region6 region6\nlink class/fpga_region/region8 ../../devices/x/y",
			cards{"0000:01:00.0": one(first)}},
		{"own class link dangles", "link class/fpga_region/region0 ../nowhere", cards{}},
		{"region of a platform device", "link " + region + "/device ../../../soc@0", cards{}},
		{"region without device link", "rm " + region + "/device", cards{}},
		{"absolute links", "link class/fpga_region/region0 $SYS/" + region, cards{"0000:01:00.0": one(first)}},
		{"second region of the function", "mkdir " + dev + "/fpga_region/region9/dfl-port.8\n" +
			"link " + dev + "/fpga_region/region9/device ../../../0000:01:00.0\n" +
			"link class/fpga_region/region9 ../../" + dev + "/fpga_region/region9",
			cards{"0000:01:00.0": one(first, portOf("dfl-port.8", 0, "", withoutFME, unbound, a10))}},
		{"names that are no ports", "mkdir " + region + "/dfl-port.\nmkdir " + region + "/dfl-port.1x\n" +
			"mkdir " + region + "/dfl-portx.1\nwrite " + region + "/dfl-port.2 x\n" +
			"link " + region + "/dfl-port.3 dfl-port.0\nmkdir " + region + "/dfl-port.0/dfl-port.4",
			cards{"0000:01:00.0": one(first)}},
		{"no port", "rm " + region + "/dfl-port.0", cards{"0000:01:00.0": {}}},
		{"no FME", "rm " + region + "/dfl-fme.0", cards{"0000:01:00.0": one(noFME)}},
		{"two FMEs", "mkdir " + region + "/dfl-fme.10", cards{"0000:01:00.0": one(first)}},
		{"no region below the FME", "rm " + region + "/dfl-fme.0/dfl-fme-region.1", cards{"0000:01:00.0": one(noInterface)}},
		{"no compat_id", "rm " + compat, cards{"0000:01:00.0": one(noInterface)}},
		{"ids in capitals", "write " + region + "/dfl-port.0/afu_id " + strings.ToUpper(afuA) + "\nwrite " + compat + " " + strings.ToUpper(pac),
			cards{"0000:01:00.0": one(first)}},
		{"compat_id all f", "write " + compat + " FFFFFFFFFFFFFFFFffffffffffffffff", cards{"0000:01:00.0": one(deadFME)}},
		{"compat_id is garbage", "write " + compat + " 12", cards{"0000:01:00.0": one(noID)}},
		{"compat_id is a directory", "rm " + compat + "\nmkdir " + compat, cards{"0000:01:00.0": one(noID)}},
		{"second compat_id is good", "mv " + region + "/dfl-fme.0/dfl-fme-region.1 " + region + "/dfl-fme.0/dfl-fme-region.2\n" +
			"mkdir " + filepath.Dir(compat) + "\nwrite " + compat + " 12", cards{"0000:01:00.0": one(first)}},
		{"numa_node is garbage", "write " + dev + "/numa_node zero", cards{"0000:01:00.0": one(first)}},
		{"numa_node is out of range", "write " + dev + "/numa_node 4294967296", cards{"0000:01:00.0": one(first)}},
		{"physfn is garbage", "write " + dev + "/physfn x", cards{"0000:01:00.0": one(first)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "kernel-6.1-one-card")
			script(t, host, tt.script)
			compare.Values(t, "cards", tt.want, readAll(t, host), ignore)
		})
	}
}

// TestPortOrder reads two regions, where the second one has the port with the lower number.
func TestPortOrder(t *testing.T) {
	host := familytest.Node(t, "dfl-two-ports")
	const regions = "devices/pci0001:3a/0001:3a:00.0/0001:3b:00.0/fpga_region/"
	script(t, host, "mkdir "+regions+"region9\nmv "+regions+"region0/dfl-port.9 "+regions+"region9/dfl-port.9\n"+
		"link "+regions+"region9/device ../../../0001:3b:00.0\nlink class/fpga_region/region9 ../../"+regions+"region9")
	r := must.Value(dfl.Family(port.PerPort).Read(host, "0001:3b:00.0"))(t)
	var got []string
	for _, p := range r.Units {
		got = append(got, p.Name)
	}
	compare.Values(t, "ports", []string{"dfl-port.9", "dfl-port.10"}, got)
}

func TestVirtualFunction(t *testing.T) {
	const pf = "devices/pci0000:00/0000:00:01.0/0000:01:00.0"
	for _, tt := range []struct {
		name   string
		script string
		want   func(*inventory.Unit)
	}{
		{"physical function is gone", "rm bus/pci/devices/0000:01:00.0\nrm " + pf, withoutFME},
		{"physical function without driver", "rm " + pf + "/fpga_region", withoutFME},
		{"physical function cannot be read", "link bus/pci/devices/0000:01:00.0 0000:01:00.0",
			func(p *inventory.Unit) {
				withoutFME(p)
				p.InterfaceIDKnown = false
				driver, config := row("fme-unbound"), row("pci-gone")
				driver.Reason, config.Reason = "unreadable=fme/driver", "unreadable=pci/config"
				gone, fatal, nonfatal := row("pci-gone"), row("aer-fatal"), row("aer-nonfatal")
				gone.Dead, fatal.Reason = true, "unreadable=pci/aer_dev_fatal"
				nonfatal.Reason, nonfatal.Health = "unreadable=pci/aer_dev_nonfatal", inventory.Degraded
				p.Conditions = []inventory.Condition{driver, config, gone, fatal, nonfatal}
			}},
		{"FME under another number", "mv " + pf + "/fpga_region/region0/dfl-fme.0 " + pf + "/fpga_region/region0/dfl-fme.12",
			fme("dfl-fme.12")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "dfl-vf")
			script(t, host, tt.script)
			got := must.Value(dfl.Family(port.PerPort).Read(host, "0000:03:00.0"))(t)
			want := portOf("dfl-port.1", 0, afuA, tt.want)
			want.Attributes = map[string]string{"physicalFunction": "0000:01:00.0"}
			if _, err := os.Readlink(host.Sys + "/bus/pci/devices/0000:03:00.0/physfn/virtfn0"); err == nil {
				want.Attributes["virtualFunction"] = "0"
			}
			compare.Values(t, "reading", inventory.Reading{Related: []string{"0000:01:00.0"}, Units: one(want)}, got, cmpopts.IgnoreFields(inventory.Reading{}, "Observed"), ignore)
		})
	}
}

func TestNoCard(t *testing.T) {
	familytest.NoCard(t, familytest.Node(t, "dfl-multi-function", "opae-one-card"), dfl.Family(port.PerPort),
		"", "pool", "../../..", "0000:17:00.3", "0000:17:00.7", "0000:82:00.0", strings.Repeat("0", 9000))
}

func TestUnreadableCard(t *testing.T) {
	host := familytest.Node(t, "kernel-6.1-two-cards")
	script(t, host, "link bus/pci/devices/0000:01:00.0 0000:01:00.0")
	cards, err := dfl.Family(port.PerPort).Cards(host)
	compare.NoError(t, "cards", err)
	compare.Values(t, "cards", []string{"0000:01:00.0", "0000:02:00.0"}, cards)
	if _, err := dfl.Family(port.PerPort).Read(host, cards[0]); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that does not wrap fs.ErrNotExist: the card exists", err)
	}
	if r, err := dfl.Family(port.PerPort).Read(host, cards[1]); err != nil || len(r.Units) != 1 {
		t.Errorf("the other card: %v, %v", r, err)
	}
}

func TestClassIsAFile(t *testing.T) {
	host := sysfs.Host{Sys: t.TempDir(), Dev: t.TempDir(), Simulated: true}
	script(t, host, "mkdir class\nwrite class/fpga_region x")
	if cards, err := dfl.Family(port.PerPort).Cards(host); len(cards) != 0 || err == nil {
		t.Errorf("cards %v, error %v; want an error", cards, err)
	}
}
