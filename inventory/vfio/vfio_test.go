package vfio_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/inventory/vfio"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
)

const absent = familytest.Absent

// unit returns the vfio-function board's unit after applying the changes.
func unit(changes ...func(*inventory.Unit)) inventory.Unit {
	u := inventory.Unit{
		ID: "01:00.0", PCIAddress: "0000:01:00.0", Name: "0000:01:00.0", Facts: inventory.Facts{PortID: -1, PCIID: "8086:bccf:8086:1771", NUMANode: -1, Nodes: []string{"vfio/6"}, NodeNumbers: []string{"244:0"}, SharedNodes: []string{"vfio/vfio"}, Attributes: map[string]string{"iommuGroup": "6"}, OnlyByRule: true, AddressEnv: []string{"PCIDEVICE_", "PCI_RESOURCE_"}}, AFUIDKnown: true, InterfaceIDKnown: true,
	}
	for _, change := range changes {
		change(&u)
	}
	return u
}

func wrong(reason string) func(*inventory.Unit) {
	row, _, _ := strings.Cut(reason, "=")
	return func(u *inventory.Unit) {
		c := inventory.Condition{Reason: reason, Health: inventory.Unhealthy, Row: row, Dead: reason == "pci-gone"}
		if row == "node-missing" {
			c.Row = ""
		}
		u.Conditions = append(u.Conditions, c)
	}
}

// virtual returns the changes for a virtual function on the vfio-pf and vfio-vfs boards.
func virtual(function, minor, index int) func(*inventory.Unit) {
	return func(u *inventory.Unit) {
		u.ID = fmt.Sprintf("03:00.%d", function)
		u.PCIAddress, u.Name, u.PCIID = "0000:"+u.ID, "0000:"+u.ID, "1b36:0010:1af4:1100"
		u.Nodes, u.NodeNumbers = []string{fmt.Sprintf("vfio/%d", 6+function)}, []string{fmt.Sprintf("244:%d", minor)}
		u.Attributes = map[string]string{"iommuGroup": fmt.Sprint(6 + function)}
		if index >= 0 {
			u.Attributes["physicalFunction"], u.Attributes["virtualFunction"] = "0000:03:00.0", fmt.Sprint(index)
		}
	}
}

// several makes the changes for the vfio-group board: the second and third functions.
func several(u *inventory.Unit) {
	u.ID, u.PCIAddress, u.Name = "01:00.1", "0000:01:00.1", "0000:01:00.1"
	u.PCIID, u.Members = "8086:bcce:8086:1771", []string{"0000:01:00.0", "0000:01:00.2"}
}

type readings = familytest.Readings

// TestBoards reads the boards that were recorded on a real kernel (make fixtures).
func TestBoards(t *testing.T) {
	notViable := func(u *inventory.Unit) {
		several(u)
		u.PCIID, u.Members = "8086:bcce:8086:1770", []string{"0000:01:00.0", "0000:01:00.2", "0000:01:00.3", "0000:01:00.4"}
	}
	whole := func(u *inventory.Unit) {
		several(u)
		u.ID, u.PCIAddress, u.Name = "01:00.0", "0000:01:00.0", "0000:01:00.0"
		u.Members = []string{"0000:01:00.1", "0000:01:00.2"}
	}
	newer := func(u *inventory.Unit) { u.NodeNumbers = []string{"243:0"} }
	card := func(u *inventory.Unit) {
		u.ID, u.PCIAddress, u.Name, u.PCIID = "04:00.0", "0000:04:00.0", "0000:04:00.0", "8086:10d3:8086:0000"
	}
	for name, want := range map[string]readings{
		"6.1-vfio-function":         {"0000:01:00.0": {unit()}},
		"6.1-vfio-unbound":          {},
		"6.1-vfio-unbound-in-use":   {},
		"6.1-vfio-unplugged-in-use": {},
		"6.1-vfio-dead":             {"0000:01:00.0": {unit(wrong("pci-gone"))}},
		"6.1-vfio-errors":           {"0000:04:00.0": {unit(card)}},
		"6.1-vfio-group":            {"0000:01:00.1": {unit(several)}, "0000:01:00.2": nil},
		"6.1-vfio-group-whole":      {"0000:01:00.0": {unit(whole)}, "0000:01:00.1": nil, "0000:01:00.2": nil},
		"6.1-vfio-group-not-viable": {"0000:01:00.1": {unit(notViable, wrong("group-not-viable=dfl-pci"))}, "0000:01:00.2": nil},
		"6.1-vfio-vfs":              {"0000:03:00.1": {unit(virtual(1, 0, 0))}, "0000:03:00.2": {unit(virtual(2, 1, 1))}},
		"6.12-vfio-cdev":            {"0000:01:00.0": {unit(newer)}},
		"6.1-vfio-pf": {
			"0000:03:00.0": {unit(virtual(0, 0, -1))},
			"0000:03:00.1": {unit(virtual(1, 1, 0))}, "0000:03:00.2": {unit(virtual(2, 2, 1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, outlines := familytest.ReadAll(t, familytest.Node(t, "kernel-"+name), vfio.Family{})
			compare.Values(t, "readings", want, got, familytest.Ignore)
			for _, units := range want { // an outline doesn't read any of the card's attributes
				for i := range units {
					units[i].PCIID, units[i].Conditions = "", nil
				}
			}
			compare.Values(t, "outlines", want, outlines, familytest.Ignore)
		})
	}
}

// TestChanges changes the board with one function or the board with a group.
func TestChanges(t *testing.T) {
	const (
		function = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
		group    = "sys/kernel/iommu_groups/6"
	)
	cdev := func(names ...string) func(*inventory.Unit) {
		return func(u *inventory.Unit) {
			u.Nodes, u.SharedNodes = append(u.Nodes, names...), append(u.SharedNodes, "iommu")
			for i := range names {
				u.NodeNumbers = append(u.NodeNumbers, fmt.Sprintf("511:%d", i))
			}
		}
	}
	only := func(nodes, numbers, shared []string) func(*inventory.Unit) {
		return func(u *inventory.Unit) { u.Nodes, u.NodeNumbers, u.SharedNodes = nodes, numbers, shared }
	}
	for _, tt := range []struct {
		name, board string
		family      vfio.Family
		files       map[string]string
		want        readings
	}{
		{"node missing", "6.1-vfio-function", vfio.Family{}, map[string]string{"dev/vfio/6": absent},
			readings{"0000:01:00.0": {unit(wrong("node-missing"))}}},
		{"shared node missing", "6.1-vfio-function", vfio.Family{}, map[string]string{"dev/vfio/vfio": absent},
			readings{"0000:01:00.0": {unit(wrong("node-missing"))}}},
		{"another driver", "6.1-vfio-function", vfio.Family{},
			map[string]string{function + "/driver -> ../../../../bus/pci/drivers/dfl-pci": ""}, readings{}},
		{"no group any more", "6.1-vfio-function", vfio.Family{}, map[string]string{function + "/iommu_group": absent}, readings{}},
		{"group without the function", "6.1-vfio-function", vfio.Family{},
			map[string]string{group + "/devices/0000:01:00.0": absent, group + "/devices/x/y": ""}, readings{}},
		{"not registered yet", "6.1-vfio-function", vfio.Family{},
			map[string]string{"sys/class/vfio/6": absent, function + "/vfio-dev": absent}, readings{}},
		{"before Linux 6.1", "6.1-vfio-function", vfio.Family{}, map[string]string{function + "/vfio-dev": absent},
			readings{"0000:01:00.0": {unit()}}},
		{"no IOMMU", "6.1-vfio-function", vfio.Family{}, map[string]string{
			group + "/name": "vfio-noiommu\n", "sys/class/vfio/noiommu-6/dev": "244:0\n", "dev/vfio/noiommu-6": "",
		}, readings{"0000:01:00.0": {unit(wrong("no-iommu"), func(u *inventory.Unit) { u.Nodes = []string{"vfio/noiommu-6"} })}}},
		{"group with another name", "6.1-vfio-function", vfio.Family{}, map[string]string{group + "/name": "fsl-mc\n"},
			readings{"0000:01:00.0": {unit()}}},

		{"a driver of VFIO for one model", "6.1-vfio-group", vfio.Family{}, map[string]string{
			"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/driver -> ../../../../bus/pci/drivers/mlx5_vfio_pci": "",
		}, readings{"0000:01:00.1": {unit(several)}, "0000:01:00.2": nil}},
		{"harmless members", "6.1-vfio-group", vfio.Family{}, map[string]string{
			"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/driver -> ../../../../bus/pci/drivers/pci-stub": "",
			"sys/devices/pci0000:00/0000:00:01.0/driver -> ../../../bus/pci_express/drivers/pcieport":         "",
			group + "/devices/0000:00:01.0 -> ../../../../devices/pci0000:00/0000:00:01.0":                    "",
			"sys/bus/pci/devices/0000:00:01.0 -> ../../../devices/pci0000:00/0000:00:01.0":                    "",
			group + "/devices/platform.0 -> ../../../../devices/platform.0":                                   "",
			"sys/devices/platform.0/x": "",
		}, readings{"0000:01:00.1": {unit(several, func(u *inventory.Unit) {
			u.Members = []string{"0000:00:01.0", "0000:01:00.0", "0000:01:00.2"}
		})}, "0000:01:00.2": nil}},
		{"the lowest member unbound", "6.1-vfio-group", vfio.Family{},
			map[string]string{"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/driver": absent},
			readings{"0000:01:00.2": {unit(several, func(u *inventory.Unit) {
				u.ID, u.PCIAddress, u.Name = "01:00.2", "0000:01:00.2", "0000:01:00.2"
				u.Members = []string{"0000:01:00.0", "0000:01:00.1"}
			})}}},
		{"a member dead", "6.1-vfio-group", vfio.Family{},
			map[string]string{"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.2/config": "\xff\xff\xff\xff"},
			readings{"0000:01:00.1": {unit(several, wrong("pci-gone"))}, "0000:01:00.2": nil}},
		{"the physical function dead", "6.1-vfio-vfs", vfio.Family{},
			map[string]string{"sys/devices/pci0000:00/0000:00:03.0/0000:03:00.0/config": "\xff\xff\xff\xff"},
			readings{"0000:03:00.1": {unit(virtual(1, 0, 0), wrong("pci-gone"))}, "0000:03:00.2": {unit(virtual(2, 1, 1), wrong("pci-gone"))}}},

		{"no character devices", "6.1-vfio-function", vfio.Family{Cdev: true}, nil, readings{"0000:01:00.0": {unit()}}},
		{"character devices of Linux 6.12", "6.12-vfio-cdev", vfio.Family{Cdev: true}, nil,
			readings{"0000:01:00.0": {unit(only([]string{"vfio/6", "vfio/devices/vfio0"}, []string{"243:0", "242:0"}, []string{"vfio/vfio", "iommu"}))}}},
		{"character devices", "6.1-vfio-function", vfio.Family{Cdev: true}, map[string]string{
			function + "/vfio-dev/vfio0/dev": "511:0\n", "dev/vfio/devices/vfio0": "", "dev/iommu": "",
		}, readings{"0000:01:00.0": {unit(cdev("vfio/devices/vfio0"))}}},
		{"character devices, not wanted", "6.1-vfio-function", vfio.Family{}, map[string]string{function + "/vfio-dev/vfio0/dev": "511:0\n"},
			readings{"0000:01:00.0": {unit()}}},
		{"character devices of a group", "6.1-vfio-group", vfio.Family{Cdev: true}, map[string]string{
			"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/vfio-dev/vfio0/dev": "511:0\n", "dev/vfio/devices/vfio0": "",
			"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.2/vfio-dev/vfio1/dev": "511:1\n", "dev/vfio/devices/vfio1": "",
			"dev/iommu": "",
		}, readings{"0000:01:00.1": {unit(several, cdev("vfio/devices/vfio0", "vfio/devices/vfio1"))}, "0000:01:00.2": nil}},
		{"only character devices", "6.1-vfio-function", vfio.Family{Cdev: true}, map[string]string{
			"sys/class/vfio/6": absent, function + "/vfio-dev/vfio0/dev": "511:0\n", "dev/vfio/devices/vfio0": "", "dev/iommu": "",
		}, readings{"0000:01:00.0": {unit(only([]string{"vfio/devices/vfio0"}, []string{"511:0"}, []string{"iommu"}))}}},
		{"only character devices, not wanted", "6.1-vfio-function", vfio.Family{}, map[string]string{
			"sys/class/vfio/6": absent, "dev/vfio/6": absent, function + "/vfio-dev/vfio0/dev": "511:0\n",
		}, readings{"0000:01:00.0": {unit(only([]string{"vfio/6"}, nil, nil), wrong("node-missing"))}}},
		{"no node of iommufd", "6.1-vfio-function", vfio.Family{Cdev: true}, map[string]string{
			function + "/vfio-dev/vfio0/dev": "511:0\n", "dev/vfio/devices/vfio0": "",
		}, readings{"0000:01:00.0": {unit(cdev("vfio/devices/vfio0"), wrong("node-missing"))}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "kernel-"+tt.board)
			for path, content := range tt.files {
				familytest.Put(t, host, path, content)
			}
			got, _ := familytest.ReadAll(t, host, tt.family)
			compare.Values(t, "readings", tt.want, got, familytest.Ignore)
		})
	}
}

// A card that doesn't exist or has another driver isn't one of the family's cards.
func TestNoCard(t *testing.T) {
	host := familytest.Node(t, "kernel-6.1-vfio-group-not-viable")
	familytest.NoCard(t, host, vfio.Family{}, "0000:01:00.0", "0000:09:00.0", "", "pool", "../../x")
	familytest.NoCard(t, host, dfl.Family(port.PerPort), "0000:01:00.1") // this one is on vfio-pci
}

func TestRelated(t *testing.T) {
	slot := func(address string, functions ...int) (all []string) {
		for _, n := range functions {
			all = append(all, fmt.Sprintf("%s.%d", address, n))
		}
		return all
	}
	for _, tt := range []struct {
		board, card string
		want        []string
	}{
		{"6.1-vfio-function", "0000:01:00.0", slot("0000:01:00", 1, 2, 3, 4, 5, 6, 7)},
		{"6.1-vfio-group", "0000:01:00.1", slot("0000:01:00", 0, 2, 3, 4, 5, 6, 7)},
		{"6.1-vfio-group", "0000:01:00.2", slot("0000:01:00", 1)},
		{"6.1-vfio-vfs", "0000:03:00.2", slot("0000:03:00", 0)},
	} {
		r, err := vfio.Family{}.Read(familytest.Node(t, "kernel-"+tt.board), tt.card)
		if diff := cmp.Diff(tt.want, r.Related); diff != "" || err != nil {
			t.Errorf("%s %s: error %v, related addresses (-want +got):\n%s", tt.board, tt.card, err, diff)
		}
	}
}

// Comparing the files of two readings shows whether a counter has risen or a file was lost.
func TestFiles(t *testing.T) {
	upstream := []string{"slot/aer_dev_fatal", "slot/aer_dev_nonfatal", "root/aer_rootport_total_err_fatal", "root/aer_rootport_total_err_nonfatal"}
	for _, tt := range []struct {
		board, card string
		want        []string
	}{
		{"6.1-vfio-errors", "0000:04:00.0", []string{
			"pci/config", "pci/current_link_speed", "pci/max_link_speed", "pci/current_link_width", "pci/max_link_width",
			"pci/aer_dev_fatal", "pci/aer_dev_nonfatal", upstream[0], upstream[1], upstream[2], upstream[3],
			"pci/aer_dev_fatal 0", "pci/aer_dev_nonfatal 1",
			upstream[0] + " 0", upstream[1] + " 0", upstream[2] + " 0", upstream[3] + " 2",
		}},
		{"6.1-vfio-group", "0000:01:00.1", []string{
			"pci/config", upstream[0], upstream[1], upstream[2], upstream[3],
			"0000:01:00.2/pci/config", "0000:01:00.2/" + upstream[0], "0000:01:00.2/" + upstream[1], "0000:01:00.2/" + upstream[2], "0000:01:00.2/" + upstream[3],
			upstream[0] + " 0", upstream[1] + " 0", upstream[2] + " 0", upstream[3] + " 0",
			"0000:01:00.2/" + upstream[0] + " 0", "0000:01:00.2/" + upstream[1] + " 0", "0000:01:00.2/" + upstream[2] + " 0", "0000:01:00.2/" + upstream[3] + " 0",
		}},
	} {
		r := familytest.ReadOne(t, familytest.Node(t, "kernel-"+tt.board), vfio.Family{}, tt.card)
		compare.Values(t, tt.board+": files and counters", tt.want, familytest.Judged(r.Units[0]))
	}
}

// Reading these files would wait for a lock that the kernel holds while it unbinds a function whose group is open.
func TestNeverRead(t *testing.T) {
	host := familytest.Node(t, "kernel-6.1-vfio-pf")
	for _, function := range []string{"0000:03:00.0", "0000:03:00.1", "0000:03:00.2"} {
		files, _ := familytest.Below(t, filepath.Join(host.Sys, "devices/pci0000:00/0000:00:03.0", function), "uevent", "driver_override", "sriov_numvfs", "reset_method")
		familytest.Silence(t, files...)
	}
	familytest.Returns(t, func() error {
		if all, _ := familytest.ReadAll(t, host, vfio.Family{Cdev: true}); len(all) != 3 {
			return fmt.Errorf("found readings %+v, want 3", all)
		}
		return nil
	})
}

// A check notices every change that may concern a group's health.
func TestObserved(t *testing.T) {
	const pci, group = "sys/devices/pci0000:00/0000:00:01.0", "sys/kernel/iommu_groups/6/devices"
	familytest.Observed(t, familytest.Node(t, "kernel-6.1-vfio-group"), vfio.Family{}, "0000:01:00.1",
		"dev/vfio/6", "dev/vfio/vfio", pci+"/0000:01:00.1", pci+"/0000:01:00.1/driver", pci+"/0000:01:00.2/driver",
		pci+"/0000:01:00.1/config", pci+"/0000:01:00.2/config", pci+"/aer_dev_fatal", pci+"/aer_rootport_total_err_nonfatal",
		group+"/0000:01:00.0", group,
		pci+"/0000:01:00.0/driver -> ../../../../bus/pci/drivers/dfl-pci",
		group+"/0000:01:00.3 -> ../../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0")
}

// If the node changes during a reading, either the reading shows the state after the change, or the next check notices
// that it is out of date. A reading never fails because another member of the group is removed.
func TestChangeDuringReading(t *testing.T) {
	const (
		pci     = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00."
		drivers = "../../../../bus/pci/drivers/"
		members = "sys/kernel/iommu_groups/6/devices/0000:01:00."
	)
	unbound := func(n string) []string {
		return []string{"sys/bus/pci/drivers/vfio-pci/0000:01:00." + n, pci + n + "/driver", pci + n + "/vfio-dev"}
	}
	for _, c := range []familytest.Change{
		{Name: "another driver binds a member", Steps: []string{pci + "0/driver -> " + drivers + "dfl-pci"}},
		{Name: "another driver takes a member", Steps: append(unbound("2"), pci+"2/driver -> "+drivers+"dfl-pci")},
		{Name: "a member is unbound", Steps: unbound("2")},
		{Name: "a member leaves", Steps: append(unbound("2"), members+"2", "sys/bus/pci/devices/0000:01:00.2", pci+"2")},
		{Name: "the function is unbound", Steps: unbound("1")},
		{Name: "the function leaves", Steps: append(unbound("1"), members+"1", "sys/bus/pci/devices/0000:01:00.1", pci+"1")},
		{Name: "a lower member is bound", Steps: []string{pci + "0/driver -> " + drivers + "vfio-pci"}},
		{Name: "a member joins", Steps: []string{pci + "3/driver -> " + drivers + "dfl-pci", members + "3 -> ../../../../devices/pci0000:00/0000:00:01.0/0000:01:00.3"}},
		{Name: "the node is removed", Steps: []string{"dev/vfio/6"}},
	} {
		familytest.ChangeDuringReading(t, familytest.Node(t, "kernel-6.1-vfio-group"), vfio.Family{}, "0000:01:00.1", c, nil)
	}
}

// If a single access fails during a reading or listing because of a shortage of descriptors or memory, the result is
// either that error or the same as without the shortage.
func TestShortage(t *testing.T) {
	for _, tt := range []struct{ board, card string }{
		{"6.1-vfio-function", "0000:01:00.0"}, {"6.1-vfio-group", "0000:01:00.1"}, {"6.1-vfio-group", "0000:01:00.2"},
		{"6.1-vfio-vfs", "0000:03:00.1"}, {"6.1-vfio-unbound-in-use", "0000:01:00.0"},
	} {
		familytest.Shortage(t, familytest.Node(t, "kernel-"+tt.board), vfio.Family{Cdev: true}, tt.card)
	}
}

func TestRows(t *testing.T) {
	familytest.Rows(t, vfio.Family{}, "group-not-viable", "no-iommu", "pci-gone", "aer-fatal", "link-width")
}
