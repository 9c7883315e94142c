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

	"b-com.com/accelerator-device-plugin/internal/board"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
)

// ignoreErr leaves out the words behind a condition, which package port tests.
var ignoreErr = cmpopts.IgnoreFields(inventory.Condition{}, "Err")

var _ inventory.Family = dfl.Family{}

const (
	afuA = "d8424dc4a4a3c413f89e433683f9040b"
	afuB = "bfaf2ae94a5246e382fe38f0f9e17764"
	pac  = "69528db6eb31577a8c3668f9faa081f6"
)

// node unfolds boards of testdata into a node of their own.
func node(t testing.TB, boards ...string) sysfs.Host {
	t.Helper()
	root := t.TempDir()
	for _, b := range boards {
		if err := board.Unfold(root, filepath.Join("../../testdata/sysfs", b+".txtar")); err != nil {
			t.Fatal(err)
		}
	}
	return sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

// unhealthy is a condition.
func unhealthy(reason string) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: inventory.Unhealthy}
}

// files is the list of health files, all there or all absent but power_state.
func files(absent bool) []inventory.HealthFile {
	return []inventory.HealthFile{
		{Name: "afu_id", Absent: absent, Lost: inventory.Unhealthy},
		{Name: "errors/errors", Absent: absent, Lost: inventory.Unhealthy},
		{Name: "power_state", Lost: inventory.Unhealthy},
	}
}

// portOf is a healthy port below the FME dfl-fme.0, changed by each change.
func portOf(name string, id int, afu string, changes ...func(*inventory.Port)) inventory.Port {
	p := inventory.Port{
		Name: name, PortID: id, PortIDKnown: true, AFUID: afu, AFUIDKnown: true,
		InterfaceID: pac, InterfaceIDKnown: true, NUMANode: -1, Nodes: []string{name},
		Parent: "dfl-fme.0", ParentNodes: []string{"dfl-fme.0"}, Files: files(false),
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func fme(name string) func(*inventory.Port) {
	return func(p *inventory.Port) { p.Parent, p.ParentNodes = name, []string{name} }
}

func unbound(p *inventory.Port) {
	p.PortID, p.PortIDKnown, p.AFUID, p.AFUIDKnown, p.Files = -1, false, "", false, nil
	p.Conditions = []inventory.Condition{unhealthy("driver-unbound")}
}

// readAll reads every card that is listed. Incarnations are checked to be there
// and then dropped: they differ from run to run.
func readAll(t *testing.T, host sysfs.Host) map[string]inventory.Reading {
	t.Helper()
	cards, err := dfl.Family{}.Cards(host)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]inventory.Reading{}
	for _, card := range cards {
		r, err := dfl.Family{}.Read(host, card)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Ports {
			if r.Ports[i].Incarnation == 0 {
				t.Errorf("%s: %s has no incarnation", card, r.Ports[i].Name)
			}
			r.Ports[i].Incarnation = 0
		}
		all[card] = r
	}
	return all
}

type cards = map[string]inventory.Reading

func one(p ...inventory.Port) inventory.Reading { return inventory.Reading{Ports: p} }

func TestBoards(t *testing.T) {
	numa := func(n int) func(*inventory.Port) { return func(p *inventory.Port) { p.NUMANode = n } }
	ofs := portOf("dfl-port.0", 0, "", numa(0), func(p *inventory.Port) {
		p.InterfaceID, p.Files = "0c1d2e3f405162738495a6b7c8d9eafb", files(true)
	})
	shutDown := func(p *inventory.Port) {
		p.Conditions = []inventory.Condition{unhealthy("port-ap6"), unhealthy("power-throttled=6")}
	}
	first := portOf("dfl-port.0", 0, afuA)
	vf := one(portOf("dfl-port.1", 0, afuA))
	vf.PhysFn = "0000:01:00.0"
	tests := []struct {
		board string
		want  cards
	}{
		{"dfl-one-card", cards{"0000:01:00.0": one(first)}},
		{"dfl-capitals", cards{"0000:01:00.0": one(first)}},
		{"dfl-two-cards", cards{
			"0000:01:00.0": one(first),
			"0000:02:00.0": one(portOf("dfl-port.1", 0, afuA, fme("dfl-fme.1"))),
		}},
		{"dfl-vf", cards{"0000:01:00.0": one(first), "0000:03:00.0": vf}},
		{"dfl-two-ports", cards{"0001:3b:00.0": one(
			portOf("dfl-port.9", 0, afuA, numa(1)),
			portOf("dfl-port.10", 1, afuB, numa(1)),
		)}},
		{"dfl-multi-function", cards{
			"0000:17:00.0": one(ofs), "0000:17:00.1": {}, "0000:17:00.2": {}, "0000:17:00.4": {},
		}},
		{"dfl-port-ap6", cards{"0000:01:00.0": one(portOf("dfl-port.0", 0, afuA, shutDown))}},
		{"dfl-unbound", cards{"0000:02:00.0": one(portOf("dfl-port.1", 0, "", fme("dfl-fme.1"), unbound))}},
		{"both-drivers", cards{"0000:01:00.0": one(first)}},
		{"opae-one-card", cards{}},
	}
	for _, tt := range tests {
		t.Run(tt.board, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, readAll(t, node(t, tt.board)), ignoreErr); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
		})
	}
}

// script changes a tree: each line is rm, mkdir, mv, write or link with paths
// below the node's sysfs root; $SYS in a link is that root.
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
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTree(t *testing.T) {
	const dev = "devices/pci0000:00/0000:00:01.0/0000:01:00.0"
	first := portOf("dfl-port.0", 0, afuA)
	noInterface := portOf("dfl-port.0", 0, afuA, func(p *inventory.Port) { p.InterfaceID = "" })
	unknownInterface := noInterface
	unknownInterface.InterfaceIDKnown = false
	noFME := noInterface
	noFME.Parent, noFME.ParentNodes = "", nil
	const region = dev + "/fpga_region/region0"
	const compat = region + "/dfl-fme.0/dfl-fme-region.1/fpga_region/region1/compat_id"
	tests := []struct {
		name   string
		script string
		want   cards
	}{
		{"stray directory in the class", "mkdir class/fpga_region/region7/dfl-port.7", cards{"0000:01:00.0": one(first)}},
		{"stray region without class link", "mkdir " + dev + "/fpga_region/region7/dfl-port.7",
			cards{"0000:01:00.0": one(first)}},
		{"class link under another name", "mkdir " + dev + "/fpga_region/region7/dfl-port.7\n" +
			"link class/fpga_region/region7 region0", cards{"0000:01:00.0": one(first)}},
		{"class entry is a directory", "rm class/fpga_region/region0\nmkdir class/fpga_region/region0", cards{}},
		{"dangling and circular class links", "link class/fpga_region/region5 ../nowhere\n" +
			"link class/fpga_region/region6 region6\nlink class/fpga_region/region8 ../../devices/x/y",
			cards{"0000:01:00.0": one(first)}},
		{"own class link dangles", "link class/fpga_region/region0 ../nowhere", cards{}},
		{"region of a platform device", "link " + region + "/device ../../../soc@0", cards{}},
		{"region without device link", "rm " + region + "/device", cards{}},
		{"no bus", "rm bus", cards{"0000:01:00.0": one(first)}},
		{"absolute links, no bus", "rm bus\nlink class/fpga_region/region0 $SYS/" + region, cards{"0000:01:00.0": one(first)}},
		{"second region of the function", "mkdir " + dev + "/fpga_region/region9/dfl-port.8\n" +
			"link " + dev + "/fpga_region/region9/device ../../../0000:01:00.0\n" +
			"link class/fpga_region/region9 ../../" + dev + "/fpga_region/region9",
			cards{"0000:01:00.0": one(first, portOf("dfl-port.8", 0, "", unbound, func(p *inventory.Port) {
				p.InterfaceID, p.Parent, p.ParentNodes = "", "", nil
			}))}},
		{"names that are no ports", "mkdir " + region + "/dfl-port.\nmkdir " + region + "/dfl-port.1x\n" +
			"mkdir " + region + "/dfl-portx.1\nwrite " + region + "/dfl-port.2 x\n" +
			"link " + region + "/dfl-port.3 dfl-port.0\nmkdir " + region + "/dfl-port.0/dfl-port.4",
			cards{"0000:01:00.0": one(first)}},
		{"no port", "rm " + region + "/dfl-port.0", cards{"0000:01:00.0": {}}},
		{"no FME", "rm " + region + "/dfl-fme.0", cards{"0000:01:00.0": one(noFME)}},
		{"two FMEs", "mkdir " + region + "/dfl-fme.10", cards{"0000:01:00.0": one(first)}},
		{"no region below the FME", "rm " + region + "/dfl-fme.0/dfl-fme-region.1", cards{"0000:01:00.0": one(noInterface)}},
		{"no compat_id", "rm " + compat, cards{"0000:01:00.0": one(noInterface)}},
		{"compat_id all f", "write " + compat + " FFFFFFFFFFFFFFFFffffffffffffffff", cards{"0000:01:00.0": one(unknownInterface)}},
		{"compat_id is garbage", "write " + compat + " 12", cards{"0000:01:00.0": one(unknownInterface)}},
		{"compat_id is a directory", "rm " + compat + "\nmkdir " + compat, cards{"0000:01:00.0": one(unknownInterface)}},
		{"second compat_id is good", "mv " + region + "/dfl-fme.0/dfl-fme-region.1 " + region + "/dfl-fme.0/dfl-fme-region.2\n" +
			"mkdir " + filepath.Dir(compat) + "\nwrite " + compat + " 12", cards{"0000:01:00.0": one(first)}},
		{"numa_node is garbage", "write " + dev + "/numa_node zero", cards{"0000:01:00.0": one(first)}},
		{"numa_node is out of range", "write " + dev + "/numa_node 4294967296", cards{"0000:01:00.0": one(first)}},
		{"physfn is garbage", "write " + dev + "/physfn x", cards{"0000:01:00.0": one(first)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := node(t, "dfl-one-card")
			script(t, host, tt.script)
			if diff := cmp.Diff(tt.want, readAll(t, host), cmpopts.EquateEmpty(), ignoreErr); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPortOrder puts the lower number into the later region.
func TestPortOrder(t *testing.T) {
	host := node(t, "dfl-two-ports")
	const regions = "devices/pci0001:3a/0001:3a:00.0/0001:3b:00.0/fpga_region/"
	script(t, host, "mkdir "+regions+"region9\nmv "+regions+"region0/dfl-port.9 "+regions+"region9/dfl-port.9\n"+
		"link "+regions+"region9/device ../../../0001:3b:00.0\nlink class/fpga_region/region9 ../../"+regions+"region9")
	r, err := dfl.Family{}.Read(host, "0001:3b:00.0")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range r.Ports {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"dfl-port.9", "dfl-port.10"}, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestVirtualFunction(t *testing.T) {
	const pf = "devices/pci0000:00/0000:00:01.0/0000:01:00.0"
	tests := []struct {
		name   string
		script string
		want   func(*inventory.Port)
	}{
		{"physical function is gone", "rm bus/pci/devices/0000:01:00.0\nrm " + pf,
			func(p *inventory.Port) { p.InterfaceID, p.Parent, p.ParentNodes = "", "", nil }},
		{"physical function without driver", "rm " + pf + "/fpga_region",
			func(p *inventory.Port) { p.InterfaceID, p.Parent, p.ParentNodes = "", "", nil }},
		{"physical function cannot be read", "link bus/pci/devices/0000:01:00.0 0000:01:00.0",
			func(p *inventory.Port) {
				p.InterfaceID, p.InterfaceIDKnown, p.Parent, p.ParentNodes = "", false, "", nil
			}},
		{"FME under another number", "mv " + pf + "/fpga_region/region0/dfl-fme.0 " + pf + "/fpga_region/region0/dfl-fme.12",
			fme("dfl-fme.12")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := node(t, "dfl-vf")
			script(t, host, tt.script)
			got, err := dfl.Family{}.Read(host, "0000:03:00.0")
			if err != nil {
				t.Fatal(err)
			}
			want := one(portOf("dfl-port.1", 0, afuA, tt.want))
			want.PhysFn = "0000:01:00.0"
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(inventory.Port{}, "Incarnation"), ignoreErr); diff != "" {
				t.Errorf("reading (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadOfNoCard(t *testing.T) {
	host := node(t, "dfl-multi-function", "opae-one-card")
	for _, card := range []string{
		"", "pool", "../../..", "0000:17:00.3", "0000:17:00.7", "0000:82:00.0", strings.Repeat("0", 9000),
	} {
		r, err := dfl.Family{}.Read(host, card)
		if !errors.Is(err, fs.ErrNotExist) || len(r.Ports) != 0 {
			t.Errorf("%.20q: read %v, error %v; want one that is fs.ErrNotExist", card, r, err)
		}
	}
	if _, err := (dfl.Family{}).Read(host, "0000:17:00.0"); err != nil {
		t.Error(err)
	}
}

// TestForeignRegion points the device link of a card's region at another card.
func TestForeignRegion(t *testing.T) {
	host := node(t, "dfl-two-cards")
	script(t, host, "link devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0/device ../../../0000:02:00.0")
	if _, err := (dfl.Family{}).Read(host, "0000:01:00.0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that is fs.ErrNotExist", err)
	}
	if r, err := (dfl.Family{}).Read(host, "0000:02:00.0"); err != nil || len(r.Ports) != 1 {
		t.Errorf("the other card: %v, %v", r, err)
	}
}

func TestUnreadableCard(t *testing.T) {
	host := node(t, "dfl-two-cards")
	script(t, host, "link bus/pci/devices/0000:01:00.0 0000:01:00.0")
	cards, err := dfl.Family{}.Cards(host)
	if diff := cmp.Diff([]string{"0000:01:00.0", "0000:02:00.0"}, cards); diff != "" || err != nil {
		t.Errorf("cards (-want +got), error %v:\n%s", err, diff)
	}
	if _, err := (dfl.Family{}).Read(host, cards[0]); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that is not fs.ErrNotExist: the card is there", err)
	}
	if r, err := (dfl.Family{}).Read(host, cards[1]); err != nil || len(r.Ports) != 1 {
		t.Errorf("the other card: %v, %v", r, err)
	}
}

func TestNoDriver(t *testing.T) {
	host := sysfs.Host{Sys: t.TempDir(), Dev: t.TempDir(), Simulated: true}
	if cards, err := (dfl.Family{}).Cards(host); len(cards) != 0 || err != nil {
		t.Errorf("cards %v, error %v; want none", cards, err)
	}
	script(t, host, "mkdir class\nwrite class/fpga_region x")
	if cards, err := (dfl.Family{}).Cards(host); len(cards) != 0 || err == nil {
		t.Errorf("cards %v, error %v; want one: the class is a file", cards, err)
	}
}

func BenchmarkRead(b *testing.B) {
	host := node(b, "dfl-one-card")
	b.ReportAllocs()
	for b.Loop() {
		if r, err := (dfl.Family{}).Read(host, "0000:01:00.0"); err != nil || len(r.Ports) != 1 {
			b.Fatal(r, err)
		}
	}
}
