package xrt_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/xrt"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	address = "0000:65:00.1"
	slot    = "sys/devices/pci0000:64/0000:64:00.0/"
	user    = slot + address + "/"
	mgmt    = slot + "0000:65:00.0/"
	link    = "sys/bus/pci/drivers/xocl/" + address
	render  = user + "drm/renderD128"
	rom     = user + "rom.u.0"
	tripped = user + "firewall.u.16777216/detected_time"
	queue   = user + "dma.qdma.u.5242880"
)

// node unpacks the board that has all files into a new directory, adds config, and returns the host.
func node(t testing.TB) sysfs.Host {
	t.Helper()
	root := t.TempDir()
	must.Succeed(t, board.Unfold(root, "../../testdata/sysfs/xrt-all-files.txtar"))
	host := sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
	familytest.Put(t, host, user+"config", "\xee\x10\x05\x50")
	familytest.Put(t, host, mgmt+"config", "\xee\x10\x04\x50")
	return host
}

const absent = familytest.Absent

// unit returns the board's unit after applying the changes.
func unit(changes ...func(*inventory.Unit)) inventory.Unit {
	u := inventory.Unit{
		ID: "65:00.1", PCIAddress: address, Name: address, Facts: inventory.Facts{PortID: -1, InterfaceID: "a9b7dc1c7b1c4c3d8f6c5d4e3b2a1908", NamedByShell: true, PCIID: "10ee:5005:10ee:000e", NUMANode: 1, Nodes: []string{"dri/renderD128", "xfpga/dma.qdma.u25857.0"}, NodeNumbers: []string{"226:128", "235:0"}, Attributes: map[string]string{
			"vbnv": "xilinx_u250_gen3x16_xdma_shell_4_1", "timestamp": "0", "fpga": "xcu250-figd2104-2L-e",
			"logicUuid": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "serialNumber": "21320733400E",
		}}, AFUIDKnown: true, InterfaceIDKnown: true,
	}
	for _, change := range changes {
		change(&u)
	}
	return u
}

func wrong(reasons ...string) func(*inventory.Unit) {
	return func(u *inventory.Unit) {
		for _, reason := range reasons {
			c := inventory.Condition{Reason: reason, Health: inventory.Unhealthy, Row: reason, Dead: reason == "pci-gone",
				Passing: slices.Contains([]string{"resetting", "device-offline", "management-not-ready", "management-offline"}, reason)}
			if reason == "node-missing" {
				c.Row = ""
			}
			u.Conditions = append(u.Conditions, c)
		}
	}
}

// passing marks the last condition as passing.
func passing(u *inventory.Unit) { u.Conditions[len(u.Conditions)-1].Passing = true }

// attributes changes attributes. The value absent removes one.
func attributes(namesAndValues ...string) func(*inventory.Unit) {
	return func(u *inventory.Unit) {
		for i := 0; i < len(namesAndValues); i += 2 {
			if name, value := namesAndValues[i], namesAndValues[i+1]; value == absent {
				delete(u.Attributes, name)
			} else {
				u.Attributes[name] = value
			}
		}
	}
}

func nodes(namesAndNumbers ...string) func(*inventory.Unit) {
	return func(u *inventory.Unit) {
		u.Nodes, u.NodeNumbers = nil, nil
		for i := 0; i < len(namesAndNumbers); i += 2 {
			u.Nodes = append(u.Nodes, namesAndNumbers[i])
			if namesAndNumbers[i+1] != "" {
				u.NodeNumbers = append(u.NodeNumbers, namesAndNumbers[i+1])
			}
		}
	}
}

func noInterface(known bool) func(*inventory.Unit) {
	return func(u *inventory.Unit) { u.InterfaceID, u.InterfaceIDKnown = "", known }
}

func TestRead(t *testing.T) {
	const one, zero, gone = "1\n", "0\n", "\xff\xff\xff\xff"
	unreadable := func(file, row string) func(*inventory.Unit) {
		return func(u *inventory.Unit) {
			u.Conditions = append(u.Conditions, inventory.Condition{Reason: "unreadable=" + file, Health: inventory.Unhealthy, Row: row})
		}
	}
	noShell := attributes("vbnv", absent, "timestamp", absent, "fpga", absent)
	for _, tt := range []struct {
		name   string
		family xrt.Family
		files  map[string]string
		want   inventory.Unit
	}{
		{"good", xrt.Family{}, nil, unit()},
		{"with the node of the management function", xrt.Family{Management: true}, nil,
			unit(nodes("dri/renderD128", "226:128", "xfpga/dma.qdma.u25857.0", "235:0", "xclmgmt25856", "236:0"))},
		{"another render node, without QDMA", xrt.Family{}, map[string]string{
			render: absent, user + "drm/renderD131/dev": "226:131\n", "dev/dri/renderD131": "", queue: absent,
		}, unit(nodes("dri/renderD131", "226:131"))},
		{"no management function, as in a virtual machine", xrt.Family{Management: true}, map[string]string{
			mgmt: absent, "sys/bus/pci/devices/0000:65:00.0": absent,
		}, unit()},
		{"management function with another driver", xrt.Family{Management: true}, map[string]string{
			mgmt + "driver -> ../../../../bus/pci/drivers/vfio-pci": "", mgmt + "ready": zero, mgmt + "config": gone,
		}, unit()},

		{"offline", xrt.Family{}, map[string]string{user + "dev_offline": one}, unit(wrong("device-offline"))},
		{"offline, the state cannot be known", xrt.Family{}, map[string]string{user + "dev_offline": "-19\n"}, unit(wrong("device-offline"))},
		{"bad state", xrt.Family{}, map[string]string{user + "device_bad_state": one}, unit(wrong("device-bad-state"))},
		{"shut down", xrt.Family{}, map[string]string{user + "shutdown": one}, unit(wrong("device-shutdown"))},
		{"no management", xrt.Family{}, map[string]string{user + "ready": "0x0\n"}, unit(wrong("management-not-ready"))},
		{"the management function is not ready", xrt.Family{}, map[string]string{mgmt + "ready": zero}, unit(wrong("management-not-ready"))},
		{"neither is ready", xrt.Family{}, map[string]string{user + "ready": "0x0\n", mgmt + "ready": zero}, unit(wrong("management-not-ready"))},
		{"the management function is offline", xrt.Family{}, map[string]string{mgmt + "dev_offline": one}, unit(wrong("management-offline"))},
		{"a firewall has tripped", xrt.Family{}, map[string]string{mgmt + "firewall.m.16777216/status": "524288\n"}, unit(wrong("firewall-tripped"))},
		{"a firewall tripped earlier", xrt.Family{}, map[string]string{tripped: "1700000000\n"}, unit()},
		{"the user function is dead", xrt.Family{}, map[string]string{user + "config": gone}, unit(wrong("pci-gone"))},
		{"the management function is dead", xrt.Family{}, map[string]string{mgmt + "config": gone}, unit(wrong("pci-gone"))},
		{"the node is missing", xrt.Family{}, map[string]string{"dev/dri/renderD128": absent}, unit(wrong("node-missing"))},
		{"the node of QDMA is missing", xrt.Family{}, map[string]string{"dev/xfpga": absent}, unit(wrong("node-missing"))},

		// The card as xocl_reset_notify leaves it, and then as the driver core does while it releases subdevices.
		{"resetting", xrt.Family{}, map[string]string{
			user + "drm": absent, user + "dev_offline": absent, user + "device_bad_state": absent, user + "ready": absent,
			user + "interface_uuids": absent, user + "logic_uuids": absent, rom: absent, user + "firewall.u.16777216": absent, queue: absent, user + "hwmon_sdm.u.27262977": absent,
		}, unit(nodes(), wrong("resetting"), noInterface(false), noShell, attributes("logicUuid", absent, "serialNumber", absent))},
		{"resetting, with subdevices without drivers", xrt.Family{}, map[string]string{
			rom + "/VBNV": absent, rom + "/timestamp": absent, rom + "/FPGA": absent, user + "drm": absent, queue: absent,
		}, unit(nodes(), wrong("resetting"), noShell)},
		{"drm again, not yet the ROM", xrt.Family{}, map[string]string{rom: absent}, unit(wrong("resetting"), noShell)},

		// It is normal for device nodes to be missing at both ends of a reset.
		{"a reset begins: the node leaves first", xrt.Family{}, map[string]string{user + "dev_offline": one, "dev/dri/renderD128": absent},
			unit(wrong("device-offline", "node-missing"), passing)},
		{"a reset ends: the states come last", xrt.Family{}, map[string]string{
			user + "dev_offline": absent, user + "device_bad_state": absent, user + "ready": absent, "dev/dri/renderD128": absent,
		}, unit(wrong("resetting", "node-missing"), passing)},

		// The shell's name is built from both values, and neither of them may come from an earlier shell.
		{"a part of the ROM of another shell", xrt.Family{}, map[string]string{rom + "/VBNV": "other\n", rom + "/timestamp": absent},
			unit(wrong("resetting"), attributes("vbnv", absent, "timestamp", absent))},
		{"the other part", xrt.Family{}, map[string]string{rom + "/VBNV": absent, rom + "/timestamp": "7\n"},
			unit(wrong("resetting"), attributes("vbnv", absent, "timestamp", absent))},
		{"a node with dots", xrt.Family{}, map[string]string{queue + "/xrt_user/xfpga!dma.qdma.u!..!..!mem/dev": "1:1\n", "dev/mem": ""}, unit(
			nodes("dri/renderD128", "226:128", "xfpga/dma.qdma.u!..!..!mem", "1:1", "xfpga/dma.qdma.u25857.0", "235:0"), wrong("node-missing"))},

		{"a shell with a timestamp, without UUIDs", xrt.Family{}, map[string]string{
			rom + "/VBNV": "xilinx_u200_xdma_201830_2\n", rom + "/timestamp": "1561465320\n", user + "logic_uuids": absent, user + "interface_uuids": absent,
		}, unit(attributes("vbnv", "xilinx_u200_xdma_201830_2", "timestamp", "1561465320", "logicUuid", absent), noInterface(false))},
		{"two interfaces", xrt.Family{}, map[string]string{user + "interface_uuids": uuid1 + "\n" + uuid2 + "\n"}, unit(noInterface(true))},
		{"garbage in the ROM", xrt.Family{}, map[string]string{rom + "/VBNV": "\xff\xff\xff", rom + "/timestamp": "x\n", rom + "/FPGA": strings.Repeat("x", 4096)},
			unit(attributes("vbnv", "", "timestamp", "", "fpga", ""))},
		{"an empty ROM", xrt.Family{}, map[string]string{rom + "/VBNV": "\n", rom + "/FPGA": "\n"}, unit(attributes("vbnv", "", "fpga", ""))},
		{"other subdevices first", xrt.Family{}, map[string]string{user + "rom": "", user + "rom.x/VBNV": "y", user + "xmc.u.1/VBNV": "z"}, unit()},

		{"unreadable", xrt.Family{}, map[string]string{
			user + "dev_offline": "x\n", user + "ready": "maybe\n", tripped: "\n", mgmt + "firewall.m.16777216/status": "yes\n", mgmt + "ready": "\n",
		}, unit(unreadable("pci/dev_offline", "device-offline"), unreadable("pci/ready", "management-not-ready"),
			unreadable("pci/firewall/detected_time", "firewall-tripped"), unreadable("mgmt/ready", "management-not-ready"), unreadable("mgmt/firewall/status", "firewall-tripped"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := node(t)
			for path, content := range tt.files {
				familytest.Put(t, host, path, content)
			}
			cards, err := tt.family.Cards(host)
			if diff := cmp.Diff([]string{address}, cards); diff != "" || err != nil {
				t.Fatalf("cards: %v, %v", cards, err)
			}
			r := must.Value(tt.family.Read(host, address))(t)
			compare.Values(t, "reading", []inventory.Unit{tt.want}, r.Units, familytest.Ignore)
			o, err := tt.family.Outline(host, address)
			outline := tt.want
			outline.PCIID, outline.NUMANode, outline.InterfaceID, outline.InterfaceIDKnown, outline.Attributes, outline.Conditions = "", -1, "", false, nil, nil
			compare.NoError(t, "outline", err)
			compare.Values(t, "outline", []inventory.Unit{outline}, o.Units, familytest.Ignore)
			if diff := cmp.Diff(r.Related, o.Related); diff != "" || !slices.Contains(r.Related, "0000:65:00.0") || len(r.Related) != 7 {
				t.Errorf("related addresses %v, of outline (-read +outline):\n%s", r.Related, diff)
			}
		})
	}
}

// TestBoards reads the boards that were recorded on a real kernel.
func TestBoards(t *testing.T) {
	card := func(changes ...func(*inventory.Unit)) []inventory.Unit {
		return []inventory.Unit{unit(append([]func(*inventory.Unit){
			nodes("dri/renderD128", "226:128"), noInterface(false), attributes(
				"vbnv", "xilinx_u250_xdma_201830_2", "timestamp", "1561465320", "logicUuid", absent, "serialNumber", absent),
			func(u *inventory.Unit) {
				u.ID, u.PCIAddress, u.Name, u.NUMANode = "01:00.1", "0000:01:00.1", "0000:01:00.1", -1
			},
		}, changes...)...)}
	}
	noShell := attributes("vbnv", absent, "timestamp", absent, "fpga", absent)
	for name, want := range map[string][]inventory.Unit{
		"card":               card(),
		"dead":               card(wrong("pci-gone")),
		"management-offline": card(wrong("management-not-ready")),
		"resetting":          card(nodes(), noShell, wrong("resetting")),
		"shutdown":           card(nodes(), noShell, wrong("resetting", "device-shutdown")),
		"unbound":            nil,
		"unbound-in-use":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			must.Value(board.UnfoldRecorded(root, "../../testdata/sysfs/kernel-6.12-xrt-"+name+".txtar"))(t)
			host := sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
			cards := must.Value(xrt.Family{}.Cards(host))(t)
			var got []inventory.Unit
			for _, c := range cards {
				r, err := xrt.Family{}.Read(host, c)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				got = append(got, r.Units...)
			}
			compare.Values(t, "units", want, got, familytest.Ignore)
		})
	}
}

// A function that has another driver or isn't completely bound yet isn't a card.
func TestNoCard(t *testing.T) {
	host := node(t)
	familytest.NoCard(t, host, xrt.Family{}, "0000:65:00.0", "0000:09:00.0", "", "../../x")
	for _, file := range []string{user + "user_pf", user + "driver", user} {
		familytest.Put(t, host, file, absent)
		familytest.NoCard(t, host, xrt.Family{}, address)
	}
}

// files lists all files that are read from the two functions, relative to the function's directory.
var files = map[string][]string{
	user: {
		"modalias", "numa_node", "config", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "aer_dev_fatal", "aer_dev_nonfatal",
		"dev_offline", "device_bad_state", "shutdown", "ready", "interface_uuids", "logic_uuids", "rom.u.0/VBNV", "rom.u.0/timestamp", "rom.u.0/FPGA",
		"firewall.u.16777216/detected_time", "hwmon_sdm.u.27262977/serial_num", "drm/renderD128/dev", "dma.qdma.u.5242880/xrt_user/xfpga!dma.qdma.u25857.0/dev",
	},
	mgmt: {
		"modalias", "numa_node", "config", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "aer_dev_fatal", "aer_dev_nonfatal",
		"dev_offline", "ready", "firewall.m.16777216/status", "xrt_mgmt/xclmgmt25856/dev",
	},
}

// Reading the management function's error attribute clears it, and many attributes wait for the card to respond.
func TestOnlyTheseFiles(t *testing.T) {
	host := node(t)
	for dir, read := range files {
		found, others := familytest.Below(t, filepath.Join(filepath.Dir(host.Sys), dir), read...)
		if len(found) != len(read) || len(others) < 2 {
			t.Fatalf("%s: found %d files of %d, and %d others", dir, len(found), len(read), len(others))
		}
		familytest.Silence(t, others...)
	}
	familytest.Returns(t, func() error {
		r, err := xrt.Family{Management: true}.Read(host, address)
		if err == nil && (len(r.Units) != 1 || len(r.Units[0].Conditions) > 0 || !sysfs.Unchanged(r.Observed)) {
			err = fmt.Errorf("found %+v, want one good unit that is unchanged", r)
		}
		_, oerr := xrt.Family{Management: true}.Outline(host, address)
		return errors.Join(err, oerr)
	})
}

// An outline doesn't read any of the drivers' attributes.
func TestOutlineReadsNumbersOnly(t *testing.T) {
	host := node(t)
	for dir, read := range files {
		read = slices.DeleteFunc(slices.Clone(read), func(name string) bool { return filepath.Base(name) == "dev" })
		found, _ := familytest.Below(t, filepath.Join(filepath.Dir(host.Sys), dir), read...)
		familytest.Silence(t, found...)
	}
	familytest.Returns(t, func() error {
		_, err := xrt.Family{Management: true}.Outline(host, address)
		return err
	})
}

// Comparing the files of two readings shows whether a counter has risen or a file was lost.
func TestFiles(t *testing.T) {
	host := node(t)
	names := familytest.Judged(familytest.ReadOne(t, host, xrt.Family{}, address).Units[0])
	for _, want := range []string{"pci/dev_offline", "pci/device_bad_state", "pci/shutdown", "pci/ready", "pci/firewall/detected_time", "pci/config",
		"mgmt/dev_offline", "mgmt/ready", "mgmt/firewall/status", "mgmt/pci/config", "pci/firewall/detected_time 0", "pci/aer_dev_fatal 0", "mgmt/pci/aer_dev_fatal 0"} {
		if !slices.Contains(names, want) {
			t.Errorf("files and counters %v, want %s among them", names, want)
		}
	}
	if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("files and counters %v, want each once", names)
	}
	// While the card is being reset, the attributes that xocl removes don't count as lost files.
	for _, name := range []string{"dev_offline", "device_bad_state", "ready", "drm", "rom.u.0", "firewall.u.16777216"} {
		familytest.Put(t, host, user+name, absent)
	}
	r, err := xrt.Family{}.Read(host, address)
	if err != nil || len(r.Units) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, f := range r.Units[0].Files {
		if f.Absent {
			t.Errorf("file %s is lost", f.Name)
		}
	}
}

// A check notices every change that may concern a card's health or device nodes.
func TestObserved(t *testing.T) {
	familytest.Observed(t, node(t), xrt.Family{Management: true}, address,
		"dev/dri/renderD128", "dev/xfpga/dma.qdma.u25857.0", "dev/xclmgmt25856", user+"driver", user+"user_pf", render, queue,
		user+"dev_offline", user+"device_bad_state", user+"shutdown", user+"ready", tripped, user+"config", user+"aer_dev_fatal",
		mgmt+"driver", mgmt+"dev_offline", mgmt+"ready", mgmt+"firewall.m.16777216/status", mgmt+"config", mgmt+"aer_dev_fatal", slot+"aer_rootport_total_err_fatal")
}

// If the node changes during a reading, either the reading shows the state after the change, or the next check notices
// that it is out of date.
func TestChangeDuringReading(t *testing.T) {
	attributes := []string{user + "dev_offline", user + "device_bad_state", user + "ready", user + "interface_uuids", user + "logic_uuids"}
	for _, c := range []familytest.Change{
		{Name: "a reset", Steps: slices.Concat([]string{"dev/dri/renderD128", user + "drm"}, attributes, []string{rom, queue, user + "firewall.u.16777216"})},
		{Name: "the function is unbound", Steps: slices.Concat([]string{link, user + "driver", "dev/dri/renderD128", user + "drm", user + "user_pf"}, attributes, []string{rom})},
		{Name: "the card is pulled", Steps: []string{link, user + "driver", "sys/bus/pci/devices/" + address, user}},
		{Name: "the management function is unbound", Steps: []string{mgmt + "driver", "dev/xclmgmt25856", mgmt + "xrt_mgmt", mgmt + "ready", mgmt + "dev_offline", mgmt + "firewall.m.16777216"}},
		{Name: "the management function is pulled", Steps: []string{mgmt + "driver", "sys/bus/pci/devices/0000:65:00.0", mgmt}},
		{Name: "the node is removed", Steps: []string{"dev/dri/renderD128"}},
	} {
		familytest.ChangeDuringReading(t, node(t), xrt.Family{Management: true}, address, c, nil)
	}
}

// If a single access fails during a reading or listing because of a shortage of descriptors or memory, the result is
// either that error or the same as without the shortage.
func TestShortage(t *testing.T) {
	familytest.Shortage(t, node(t), xrt.Family{Management: true}, address)
}

func TestRows(t *testing.T) {
	familytest.Rows(t, xrt.Family{}, "resetting", "device-offline", "device-bad-state", "device-shutdown", "firewall-tripped",
		"management-not-ready", "management-offline", "pci-gone", "aer-fatal")
}
