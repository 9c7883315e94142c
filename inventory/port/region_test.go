package port_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The boards' class entries, relative to sys/devices.
const (
	oneCard  = "pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0/"
	twoPorts = "pci0001:3a/0001:3a:00.0/0001:3b:00.0/fpga_region/region0/"
)

// region returns a healthy unit in region mode, with its ports' nodes and its FME, which is programmed when a container
// starts. The changes are applied to it.
func region(name, fme string, nodes []string, changes ...func(*inventory.Unit)) inventory.Unit {
	p := inventory.Unit{
		Name: name, PortIDKnown: true, Whole: true, AFUIDKnown: true, Facts: inventory.Facts{InterfaceID: pacID, NUMANode: -1, Nodes: nodes, Parent: fme, ParentNodes: []string{fme}, ProgramAtStart: true}, InterfaceIDKnown: true,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func noInterface(p *inventory.Unit)  { p.InterfaceID, p.InterfaceIDKnown = "", false }
func partial(p *inventory.Unit)      { p.Partial = true }
func noFME(p *inventory.Unit)        { p.InterfaceID, p.Parent, p.ParentNodes = "", "", nil }
func secondSocket(p *inventory.Unit) { p.NUMANode = 1 }
func withAFU(p *inventory.Unit)      { p.AFUID = afuID }
func a10(p *inventory.Unit)          { p.PCIID = "8086:09c4:8086:0000" }
func virtual(p *inventory.Unit) {
	p.Attributes = map[string]string{"physicalFunction": "0000:01:00.0", "virtualFunction": "0"}
}
func d5005(p *inventory.Unit) {
	p.PCIID, p.InterfaceID, p.AFUID = "8086:0b2b:8086:138d", otherID, "bfaf2ae94a5246e382fe38f0f9e17764"
}
func nodes(names ...string) []string { return names }

// withFMENode returns the region as it would be in regiondevel mode.
func withFMENode(p inventory.Unit) inventory.Unit {
	p.Nodes, p.ProgramAtStart = append(slices.Clone(p.Nodes), p.ParentNodes...), false
	return p
}

func wrong(all ...inventory.Condition) func(*inventory.Unit) {
	return func(p *inventory.Unit) { p.Conditions = all }
}

// Nodes and names are the same as with Intel's plugin: a region has the device nodes of all its ports, and a
// regiondevel has the FME's node too. The device ID is our own. It is the same as port 0's, the card's address.
func TestRegion(t *testing.T) {
	first := func(changes ...func(*inventory.Unit)) inventory.Unit { // the card that most boards have
		return region("region0", "dfl-fme.0", nodes("dfl-port.0"), append(changes, a10)...)
	}
	two := func(nodes []string, changes ...func(*inventory.Unit)) inventory.Unit {
		return region("region0", "dfl-fme.0", nodes, append(changes, secondSocket)...)
	}
	both := nodes("dfl-port.9", "dfl-port.10")
	const compat = "dfl-fme-region.1/fpga_region/region1/compat_id"
	noPort := wrong(unhealthy("no-port")...)
	missing := inventory.Condition{Reason: "node-missing", Health: bad}
	for _, tt := range []struct {
		name, board, card string
		edits             map[string]map[string]string // by directory, relative to sys/devices
		want              inventory.Unit               // in region mode
		devel             func(*inventory.Unit)        // if not nil, changes the expected unit for regiondevel mode
	}{
		{"one card", "kernel-6.1-one-card", "0000:01:00.0", nil, first(withAFU), nil},
		{"second card", "kernel-6.1-two-cards", "0000:02:00.0", nil,
			region("region2", "dfl-fme.1", nodes("dfl-port.1"), d5005), nil},
		{"renumbered", "kernel-6.1-two-cards-renumbered", "0000:01:00.0", nil,
			region("region2", "dfl-fme.1", nodes("dfl-port.1"), withAFU, a10), nil},
		{"two ports", "dfl-two-ports", "0001:3b:00.0", nil, two(both), nil},
		{"without AFU id", "dfl-multi-function", "0000:17:00.0", nil,
			region("region0", "dfl-fme.0", nodes("dfl-port.0"), func(p *inventory.Unit) {
				p.InterfaceID, p.NUMANode = "0c1d2e3f405162738495a6b7c8d9eafb", 0
			}), nil},
		{"opae", "opae-one-card", "0000:82:00.0", nil,
			region("intel-fpga-dev.0", "intel-fpga-fme.0", nodes("intel-fpga-port.0"), func(p *inventory.Unit) {
				p.AFUID, p.InterfaceID = "00112233445566778899aabbccddeeff", "a1b2c3d4e5f60718293a4b5c6d7e8f90"
			}), nil},

		{"physical function", "dfl-vf", "0000:01:00.0", nil,
			region("region0", "dfl-fme.0", nodes("dfl-port.0"), withAFU), nil},
		{"virtual function", "dfl-vf", "0000:03:00.0", nil, region("region2", "", nodes("dfl-port.1"), withAFU, noFME, virtual), nil},
		{"FME missing", "kernel-6.1-one-card", "0000:01:00.0", map[string]map[string]string{oneCard: {"dfl-fme.0": absent}},
			first(withAFU, noFME), nil},

		{"port released", "dfl-two-ports", "0001:3b:00.0", map[string]map[string]string{twoPorts: {"dfl-port.10": absent}},
			two(nodes("dfl-port.9"), partial), nil},
		{"all ports released", "dfl-two-ports", "0001:3b:00.0",
			map[string]map[string]string{twoPorts: {"dfl-port.9": absent, "dfl-port.10": absent}},
			two(nil, noPort), nil},
		{"the only port released", "kernel-6.1-port-released", "0000:01:00.0", nil,
			region("region0", "dfl-fme.0", nil, noAFU, a10, noPort), nil},
		{"port assigned", "kernel-6.1-port-assigned", "0000:01:00.0", nil,
			first(noAFU, wrong(unhealthy("driver-unbound")...)), nil},
		{"port without driver", "kernel-6.1-port-unbound", "0000:01:00.0", nil,
			first(noAFU, wrong(unhealthy("driver-unbound")...)), nil},

		{"AP6 on one of two", "dfl-two-ports", "0001:3b:00.0",
			map[string]map[string]string{twoPorts + "dfl-port.10": {"errors/errors": "0x4000000000000\n"}},
			two(both, wrong(ofRow("port-ap6", bad))), nil},
		{"the same error on both", "dfl-two-ports", "0001:3b:00.0", map[string]map[string]string{
			twoPorts + "dfl-port.9":  {"errors/errors": "0x1\n"},
			twoPorts + "dfl-port.10": {"errors/errors": "0x100000001\n"},
		}, two(both, wrong(ofRow("port-tx=ch0-overflow", poor), ofRow("port-mmio-timeout", poor))), nil},
		{"dead AFU and dead port", "dfl-two-ports", "0001:3b:00.0", map[string]map[string]string{
			twoPorts + "dfl-port.9":  {"afu_id": allF + "\n"},
			twoPorts + "dfl-port.10": {"power_state": "0xf\n"},
		}, two(both, wrong(dead("afu-dead"), dead("port-dead"))), nil},

		{"FME errors", "kernel-6.1-fme-errors", "0000:01:00.0", nil, first(withAFU, wrong(
			ofRow("fme-fatal=thermal", bad), ofRow("fme-nonfatal=temperature-ap1", poor),
			ofRow("fme-error=fabric", poor), ofRow("fme-error=fabric-fifo", poor), ofRow("fme-pcie0=completion-timeout", poor),
		)), nil},
		{"FME without driver", "kernel-6.1-fme-unbound", "0000:01:00.0", nil,
			first(noAFU, noInterface, wrong(ofRow("fme-unbound", bad))), nil},
		{"FME without driver and node", "kernel-6.1-fme-unbound", "0000:01:00.0",
			map[string]map[string]string{"../../dev": {"dfl-fme.0": absent}},
			first(noAFU, noInterface, wrong(ofRow("fme-unbound", bad))), nil},
		{"interface all f", "kernel-6.1-one-card", "0000:01:00.0", map[string]map[string]string{oneCard + "dfl-fme.0": {compat: allF + "\n"}},
			first(withAFU, noInterface, wrong(dead("fme-dead"))), nil},
		{"interface unreadable", "kernel-6.1-one-card", "0000:01:00.0", map[string]map[string]string{oneCard + "dfl-fme.0": {compat: directory}},
			first(withAFU, noInterface,
				wrong(withRow("fme-dead", "unreadable=fme/compat_id", poor))), nil},
		{"no interface", "kernel-6.1-one-card", "0000:01:00.0", map[string]map[string]string{oneCard + "dfl-fme.0": {"dfl-fme-region.1": absent}},
			first(withAFU, func(p *inventory.Unit) { p.InterfaceID = "" }), nil},
		{"number of ports unreadable", "kernel-6.1-one-card", "0000:01:00.0", map[string]map[string]string{oneCard + "dfl-fme.0": {"ports_num": directory}},
			first(noAFU), nil},
		// The dead card reports 7 ports.
		{"dead card", "kernel-6.1-dead-card", "0000:01:00.0", map[string]map[string]string{oneCard + "../..": {"config": gone}},
			first(wrong(dead("afu-dead"), dead("fme-dead"), dead("pci-gone")), partial), nil},

		// The board has no afu_id, because it failed with EBUSY. See TestTakeAFU.
		{"programming", "kernel-6.1-programming", "0000:01:00.0", map[string]map[string]string{oneCard + "dfl-fme.0/errors": {
			"first_error": silent, "fme_errors": silent, "inject_errors": silent, "next_error": silent,
			"pcie0_errors": silent, "pcie1_errors": silent,
		}}, first(), nil},
		{"programming failed", "kernel-6.1-programming-failed", "0000:01:00.0", nil,
			first(wrong(ofRow("programming-failed", poor))), nil},

		{"FME's node missing", "kernel-6.1-one-card", "0000:01:00.0", map[string]map[string]string{"../../dev": {"dfl-fme.0": absent}},
			first(withAFU), wrong(missing)},
		{"all nodes missing", "kernel-6.1-one-card", "0000:01:00.0",
			map[string]map[string]string{"../../dev": {"dfl-fme.0": absent, "dfl-port.0": absent}},
			first(withAFU, wrong(missing)), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, tt.board)
			for dir, files := range tt.edits {
				edit(t, filepath.Join(host.Sys, "devices", dir), files)
			}
			devel := withFMENode(tt.want)
			if tt.devel != nil {
				tt.devel(&devel)
			}
			for unit, want := range map[port.Kind]inventory.Unit{port.PerFME: tt.want, port.PerFMEWithNode: devel} {
				got := readRegion(t, host, unit, tt.card)
				if got.Incarnation == 0 {
					t.Errorf("unit %d: no incarnation", unit)
				}
				compare.Values(t, fmt.Sprintf("unit %d: region", unit), want, got, familytest.Ignore,
					cmpopts.IgnoreFields(inventory.Unit{}, "NodeNumbers"))
			}
		})
	}
}

// readRegion reads the only region on a card of either driver.
func readRegion(t *testing.T, host sysfs.Host, unit port.Kind, card string) inventory.Unit {
	t.Helper()
	var all []inventory.Unit
	for _, family := range []inventory.Family{dfl.Family(unit), opae.Family(unit)} {
		if r, err := family.Read(host, card); err == nil {
			all = append(all, r.Units...)
		}
	}
	if len(all) != 1 {
		t.Fatalf("%s: regions %+v, want one", card, all)
	}
	return all[0]
}

// A function with neither an FME nor a port isn't a region.
func TestNoRegion(t *testing.T) {
	host := familytest.Node(t, "dfl-multi-function")
	for _, unit := range []port.Kind{port.PerFME, port.PerFMEWithNode} {
		for _, read := range []func(inventory.Family, sysfs.Host, string) (inventory.Reading, error){
			inventory.Family.Read, inventory.Family.Outline,
		} {
			if r, err := read(dfl.Family(unit), host, "0000:17:00.1"); err != nil || len(r.Units) != 0 {
				t.Errorf("reading %+v, error %v; want neither", r, err)
			}
		}
	}
}

// If a region changes while it is being read, the result shows the new state. A FIFO in place of one of the FME's files
// blocks the reading until the test writes to it.
func TestRegionChangesDuringReading(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(region string) error
		want []string // the region's nodes; nil: there is no region
	}{
		{"stays", func(string) error { return nil }, nodes("dfl-port.9")},
		{"a port comes", func(region string) error { return os.Rename(region+"later", region+"dfl-port.10") },
			nodes("dfl-port.9", "dfl-port.10")},
		{"a port takes the place of another", func(region string) error {
			return os.Rename(region+"dfl-port.9", region+"dfl-port.3")
		}, nodes("dfl-port.3")},
		{"removed", os.RemoveAll, nil},
		{"replaced", func(region string) error {
			region = strings.TrimSuffix(region, "/")
			return errors.Join(os.Rename(region, region+"0"), os.CopyFS(region, os.DirFS(region+"0")))
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "dfl-two-ports")
			region := host.Sys + "/devices/" + twoPorts
			fifo := region + "dfl-fme.0/errors/catfatal_errors"
			must.Succeed(t, errors.Join(os.Rename(region+"dfl-port.10", region+"later"), os.Mkdir(filepath.Dir(fifo), 0o755),
				syscall.Mkfifo(fifo, 0o600)))
			result := make(chan []string)
			go func() {
				r, err := dfl.Family(port.PerFME).Read(host, "0001:3b:00.0")
				if err != nil {
					t.Error(err)
				}
				var nodes []string
				for _, p := range r.Units {
					nodes = append(nodes, p.Nodes...)
				}
				result <- nodes
			}()
			f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // blocks until Read opens it
			must.Succeed(t, err)
			err = errors.Join(os.Remove(fifo), tt.then(region)) // Read may read the FME again
			_, werr := f.WriteString("0x0\n")
			must.Succeed(t, err, werr, f.Close())
			compare.Values(t, "nodes", tt.want, <-result)
		})
	}
}

// If a region has several ports, the errors in conditions say which port they are about.
func TestRegionErrorsNamePort(t *testing.T) {
	host := familytest.Node(t, "dfl-two-ports")
	region := host.Sys + "/devices/" + twoPorts
	edit(t, region+"dfl-port.9", map[string]string{"errors/errors": "0x1\n", "power_state": directory, "id": "7\n"})
	edit(t, region+"dfl-port.10", map[string]string{"errors/errors": "0x1\n", "driver": absent})
	edit(t, host.Dev, map[string]string{"dfl-port.10": absent, "dfl-port.9": absent})
	var got []string
	for _, c := range readRegion(t, host, port.PerFME, "0001:3b:00.0").Conditions {
		words := strings.ReplaceAll(strings.ReplaceAll(c.Err.Error(), region, ""), host.Dev, "dev")
		got = append(got, c.Reason+": "+words)
	}
	want := []string{
		`unreadable=id: dfl-port.9: dfl-port.9/id: found "7", want a port number from 0 to 3`,
		"port-tx=ch0-overflow: dfl-port.9: port-tx=ch0-overflow\ndfl-port.10: port-tx=ch0-overflow",
		"unreadable=power_state: dfl-port.9: read dfl-port.9/power_state: is a directory",
		"node-missing: dfl-port.9: no device node: lstat dev/dfl-port.9: no such file or directory\n" +
			"dfl-port.10: no device node: lstat dev/dfl-port.10: no such file or directory",
	}
	compare.Values(t, "conditions", want, got)

	// If a region has only one port, the errors don't name it.
	edit(t, region, map[string]string{"dfl-port.10": absent})
	for _, c := range readRegion(t, host, port.PerFME, "0001:3b:00.0").Conditions {
		if c.Err != nil && strings.HasPrefix(c.Err.Error(), "dfl-port.9: ") {
			t.Errorf("%s: error %v, want one without the name of the only port", c.Reason, c.Err)
		}
	}
}

// Several conditions with the same reason become one. It has the worst of their severities, whatever the order, and is
// dead if any of them is.
func TestJoin(t *testing.T) {
	silent, worse := ofRow("fme-error", poor), ofRow("fme-error", bad)
	silent.Dead = true
	both := worse
	both.Dead = true
	other := ofRow("port-ap6", bad)
	for name, order := range map[string][]inventory.Condition{
		"worse last": {silent, other, worse}, "worse first": {worse, other, silent},
	} {
		compare.Values(t, name+": conditions", []inventory.Condition{both, other}, port.Join(order...))
	}
}

// The names of a port's files start with its directory, and all other files occur only once. If a file is lost, the
// reason doesn't include the port.
func TestRegionFiles(t *testing.T) {
	r := newRig(t, "dfl")
	got := readRegion(t, r.host, port.PerFME, r.address)
	want := judged("dfl")
	for i := range want[:3] { // the port's files
		want[i].Name, want[i].Reason = "dfl-port.0/"+want[i].Name, "unreadable="+want[i].Name
	}
	compare.Values(t, "files", want, got.Files)
	counters := []string{
		"pci/aer_dev_fatal", "pci/aer_dev_nonfatal", "slot/aer_dev_fatal", "slot/aer_dev_nonfatal",
		"root/aer_rootport_total_err_fatal", "root/aer_rootport_total_err_nonfatal",
	}
	var names []string
	for _, c := range got.Counters {
		names = append(names, c.Name)
	}
	compare.Values(t, "counters", counters, names)

	names = nil
	for _, f := range readRegion(t, familytest.Node(t, "dfl-two-ports"), port.PerFME, "0001:3b:00.0").Files {
		names = append(names, f.Name)
	}
	two := []string{
		"dfl-port.9/afu_id", "dfl-port.9/errors/errors", "dfl-port.9/power_state",
		"dfl-port.10/afu_id", "dfl-port.10/errors/errors", "dfl-port.10/power_state",
		"fme/driver", "fme/compat_id", "fme/errors/catfatal_errors", "fme/errors/nonfatal_errors", "fme/manager",
		"fme/errors/fme_errors", "fme/errors/pcie0_errors", "fme/errors/pcie1_errors", "fme/hwmon",
		"pci/config", "pci/current_link_speed", "pci/current_link_width", "pci/aer_dev_fatal", "pci/aer_dev_nonfatal",
		"slot/aer_dev_fatal", "slot/aer_dev_nonfatal",
		"root/aer_rootport_total_err_fatal", "root/aer_rootport_total_err_nonfatal",
	}
	compare.Values(t, "files of two ports", two, names)
}

// A card's outline contains the same region as a full reading, without attributes.
func TestRegionOutline(t *testing.T) {
	for _, tt := range []struct {
		name, board, card string
		released          []string
	}{
		{"two ports", "dfl-two-ports", "0001:3b:00.0", nil},
		{"virtual function", "dfl-vf", "0000:03:00.0", nil},
		{"all ports released", "dfl-two-ports", "0001:3b:00.0", nodes("dfl-port.9", "dfl-port.10")},
	} {
		for _, unit := range []port.Kind{port.PerFME, port.PerFMEWithNode} {
			t.Run(fmt.Sprint(tt.name, unit), func(t *testing.T) {
				host := familytest.Node(t, tt.board)
				for _, name := range tt.released {
					edit(t, host.Sys+"/devices/"+twoPorts, map[string]string{name: absent})
				}
				want := readRegion(t, host, unit, tt.card)
				want.AFUID, want.AFUIDKnown, want.PCIID, want.NUMANode, want.Files, want.Counters = "", false, "", -1, nil, nil
				if want.Parent != "" {
					noInterface(&want)
				}
				for _, file := range []string{"id", "afu_id", "ports_num", "compat_id"} {
					paths, _ := filepath.Glob(host.Sys + "/devices/*/*/*/fpga_region/region*/dfl-*/" + file)
					for _, path := range paths {
						edit(t, filepath.Dir(path), map[string]string{file: directory})
					}
				}
				r, err := dfl.Family(unit).Outline(host, tt.card)
				if err != nil || len(r.Units) != 1 {
					t.Fatalf("outline %+v, error %v", r, err)
				}
				compare.Values(t, "region (-read +outline)", want, r.Units[0])
			})
		}
	}
}

// Device node numbers are read for every kind of unit, even without a driver.
func TestNodeNumbers(t *testing.T) {
	for _, tt := range []struct {
		name, board, card string
		unit              port.Kind
		edit              map[string]string // in the class entry
		want              [][]string        // for each port that was read
	}{
		{"port", "kernel-6.1-one-card", "0000:01:00.0", port.PerPort, nil, [][]string{{"245:0"}}},
		{"ports", "dfl-two-ports", "0001:3b:00.0", port.PerPort, nil, [][]string{{"245:9"}, {"245:10"}}},
		{"opae", "opae-one-card", "0000:82:00.0", port.PerPort, nil, [][]string{{"244:0"}}},
		{"without driver", "kernel-6.1-port-unbound", "0000:01:00.0", port.PerPort, nil, [][]string{{"245:0"}}},
		{"region", "dfl-two-ports", "0001:3b:00.0", port.PerFME, nil, [][]string{{"245:9", "245:10"}}},
		{"region with the FME's node", "dfl-two-ports", "0001:3b:00.0", port.PerFMEWithNode, nil, [][]string{{"245:9", "245:10", "246:0"}}},
		{"no number", "dfl-two-ports", "0001:3b:00.0", port.PerFMEWithNode, map[string]string{"dfl-port.9/dev": absent}, [][]string{{"245:10", "246:0"}}},
		{"garbage", "dfl-two-ports", "0001:3b:00.0", port.PerFMEWithNode, map[string]string{"dfl-port.9/dev": "245:10:1\n"}, [][]string{{"245:10", "246:0"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, tt.board)
			edit(t, host.Sys+"/devices/"+twoPorts, tt.edit)
			var family interface {
				Read(sysfs.Host, string) (inventory.Reading, error)
				Outline(sysfs.Host, string) (inventory.Reading, error)
			} = dfl.Family(tt.unit)
			if strings.HasPrefix(tt.board, "opae") {
				family = opae.Family(tt.unit)
			}
			for name, read := range map[string]func(sysfs.Host, string) (inventory.Reading, error){"read": family.Read, "outline": family.Outline} {
				r := must.Value(read(host, tt.card))(t)
				var got [][]string
				for _, p := range r.Units {
					got = append(got, p.NodeNumbers)
				}
				compare.Values(t, name+": numbers", tt.want, got)
			}
		})
	}
}
