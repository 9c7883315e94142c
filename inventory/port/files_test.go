package port_test

import (
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// judged returns the health files of a card that has all of them, each with its name, the severity if the file is lost,
// and the row that the severity comes from.
func judged(family string) []inventory.HealthFile {
	healthFile := func(name string, lost inventory.Health, row string) inventory.HealthFile {
		return inventory.HealthFile{Name: name, Lost: lost, Row: row}
	}
	interfaceID, errors := "fme/compat_id", "fme/errors/fme_errors"
	alarms := []inventory.HealthFile{healthFile("fme/hwmon", bad, "alarm-crit")}
	if family == "opae" {
		interfaceID, errors = "fme/pr/interface_id", "fme/errors/fme-errors/errors"
		alarms = []inventory.HealthFile{
			healthFile("fme/thermal_mgmt/threshold2_reached", bad, "alarm-crit=thermal"),
			healthFile("fme/thermal_mgmt/threshold1_reached", poor, "alarm-max=thermal"),
			healthFile("fme/power_mgmt/threshold2_status", bad, "alarm-crit=power"),
			healthFile("fme/power_mgmt/threshold1_status", poor, "alarm-max=power"),
		}
	}
	return slices.Concat([]inventory.HealthFile{
		healthFile("afu_id", bad, "afu-dead"),
		healthFile("errors/errors", bad, "port-ap6"),
		healthFile("power_state", bad, "power-throttled=6"),
		{Name: "fme/driver", Lost: bad, Row: "fme-unbound", Reason: "fme-unbound"},
		healthFile(interfaceID, poor, "fme-dead"),
		healthFile("fme/errors/catfatal_errors", bad, "fme-fatal"),
		healthFile("fme/errors/nonfatal_errors", bad, "fme-ap6"),
		healthFile("fme/manager", poor, "programming-failed"),
		healthFile(errors, poor, "fme-error"),
		healthFile("fme/errors/pcie0_errors", poor, "fme-pcie0"),
		healthFile("fme/errors/pcie1_errors", poor, "fme-pcie1"),
	}, alarms, []inventory.HealthFile{
		healthFile("pci/config", bad, "pci-gone"),
		healthFile("pci/current_link_speed", bad, "pci-gone"),
		healthFile("pci/max_link_speed", poor, "link-speed"),
		healthFile("pci/current_link_width", bad, "pci-gone"),
		healthFile("pci/max_link_width", poor, "link-width"),
		healthFile("pci/aer_dev_fatal", bad, "aer-fatal"),
		healthFile("pci/aer_dev_nonfatal", poor, "aer-nonfatal"),
		healthFile("slot/aer_dev_fatal", bad, "slot-aer-fatal"),
		healthFile("slot/aer_dev_nonfatal", poor, "slot-aer-nonfatal"),
		healthFile("root/aer_rootport_total_err_fatal", bad, "root-aer-fatal"),
		healthFile("root/aer_rootport_total_err_nonfatal", poor, "root-aer-nonfatal"),
	})
}

// TestAllFiles compares the entire unit of a healthy card that has all files.
func TestAllFiles(t *testing.T) {
	counter := func(name, row string, health inventory.Health) inventory.Counter {
		return inventory.Counter{Name: name, Reason: row, Health: health, Row: row}
	}
	counters := []inventory.Counter{
		counter("pci/aer_dev_fatal", "aer-fatal", bad), counter("pci/aer_dev_nonfatal", "aer-nonfatal", poor),
		counter("slot/aer_dev_fatal", "slot-aer-fatal", bad), counter("slot/aer_dev_nonfatal", "slot-aer-nonfatal", poor),
		counter("root/aer_rootport_total_err_fatal", "root-aer-fatal", bad),
		counter("root/aer_rootport_total_err_nonfatal", "root-aer-nonfatal", poor),
	}
	for family, want := range map[string]inventory.Unit{
		"dfl": {
			Name: "dfl-port.0", Facts: inventory.Facts{AFUID: afuID, InterfaceID: pacID, Nodes: []string{"dfl-port.0"},
				Parent: "dfl-fme.0", ParentNodes: []string{"dfl-fme.0"}},
		},
		"opae": {
			Name: "intel-fpga-port.0", Facts: inventory.Facts{AFUID: "00112233445566778899aabbccddeeff", InterfaceID: "a1b2c3d4e5f60718293a4b5c6d7e8f90",
				Nodes: []string{"intel-fpga-port.0"}, Parent: "intel-fpga-fme.0", ParentNodes: []string{"intel-fpga-fme.0"}},
		},
	} {
		t.Run(family, func(t *testing.T) {
			want.PortIDKnown, want.AFUIDKnown, want.InterfaceIDKnown = true, true, true
			want.PCIID, want.NUMANode = "8086:09c4:8086:0000", 1
			want.Attributes = map[string]string{"bitstreamId": "0x123000200000185"}
			want.Files, want.Counters = judged(family), counters
			got := newRig(t, family).read(t)
			got.Incarnation, got.NodeNumbers = 0, nil
			compare.Values(t, "port", want, got)
		})
	}
}

// TestFiles removes each file, replaces it with a directory, and gives it invalid content. A missing file doesn't cause
// a condition. A file that can't be read or whose value is invalid causes a condition with the same severity as if the
// file was lost.
func TestFiles(t *testing.T) {
	for _, family := range []string{"dfl", "opae"} {
		r := newRig(t, family)
		for _, f := range judged(family) {
			if f.Name == "fme/driver" || f.Name == "fme/hwmon" {
				continue // not files; see TestFMEDriver and TestHWMon
			}
			unreadable := []inventory.Condition{withRow(f.Row, "unreadable="+f.Name, f.Lost)}
			failing := unreadable
			if strings.HasPrefix(f.Name, "pci/current_link") {
				failing = []inventory.Condition{dead("pci-gone")}
			}
			rubbish := "\xff rubbish\n"
			if f.Name == "pci/config" {
				rubbish = "\xff\xff\xff"
			}
			for _, tt := range []struct {
				name, content string
				want          []inventory.Condition
			}{
				{"absent", absent, nil},
				{"directory", directory, failing},
				{"rubbish", rubbish, unreadable},
				{"empty", "", unreadable},
			} {
				t.Run(family+"/"+f.Name+"/"+tt.name, func(t *testing.T) {
					old := r.swap(t, f.Name, tt.content)
					defer r.put(t, f.Name, old)
					got := r.read(t)
					compare.Values(t, "conditions", tt.want, got.Conditions, ignoreErr)
					for _, c := range got.Conditions {
						if c.Err == nil || !strings.Contains(c.Err.Error(), r.path(f.Name)) {
							t.Errorf("%s: error %v does not name the file", c.Reason, c.Err)
						}
					}
					i := slices.IndexFunc(got.Files, func(g inventory.HealthFile) bool { return g.Name == f.Name })
					if i < 0 || got.Files[i].Absent != (tt.content == absent) {
						t.Errorf("files %+v: want %s, absent %v", got.Files, f.Name, tt.content == absent)
					}
				})
			}
		}
		compare.Empty(t, family+": all files as before: conditions", r.read(t).Conditions)
	}
}
