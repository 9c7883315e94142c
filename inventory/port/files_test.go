package port_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
)

// judged are the health files of a card that has them all: name, how bad it is to
// lose one, and the line that this comes from.
func judged(family string) []inventory.HealthFile {
	of := func(name string, lost inventory.Health, row string) inventory.HealthFile {
		return inventory.HealthFile{Name: name, Lost: lost, Row: row}
	}
	interfaceID, errors := "fme/compat_id", "fme/errors/fme_errors"
	alarms := []inventory.HealthFile{of("fme/hwmon", bad, "alarm-crit")}
	if family == "opae" {
		interfaceID, errors = "fme/pr/interface_id", "fme/errors/fme-errors/errors"
		alarms = []inventory.HealthFile{
			of("fme/thermal_mgmt/threshold2_reached", bad, "alarm-crit=thermal"),
			of("fme/thermal_mgmt/threshold1_reached", poor, "alarm-max=thermal"),
			of("fme/power_mgmt/threshold2_status", bad, "alarm-crit=power"),
			of("fme/power_mgmt/threshold1_status", poor, "alarm-max=power"),
		}
	}
	return slices.Concat([]inventory.HealthFile{
		of("afu_id", bad, "afu-dead"),
		of("errors/errors", bad, "port-ap6"),
		of("power_state", bad, "power-throttled=6"),
		{Name: "fme/driver", Lost: bad, Row: "fme-unbound", Reason: "fme-unbound"},
		of(interfaceID, poor, "fme-dead"),
		of("fme/errors/catfatal_errors", bad, "fme-fatal"),
		of("fme/errors/nonfatal_errors", bad, "fme-ap6"),
		of("fme/manager", poor, "programming-failed"),
		of(errors, poor, "fme-error"),
		of("fme/errors/pcie0_errors", poor, "fme-pcie0"),
		of("fme/errors/pcie1_errors", poor, "fme-pcie1"),
	}, alarms, []inventory.HealthFile{
		of("pci/config", bad, "pci-gone"),
		of("pci/current_link_speed", bad, "pci-gone"),
		of("pci/max_link_speed", poor, "link-speed"),
		of("pci/current_link_width", bad, "pci-gone"),
		of("pci/max_link_width", poor, "link-width"),
		of("pci/aer_dev_fatal", bad, "aer-fatal"),
		of("pci/aer_dev_nonfatal", poor, "aer-nonfatal"),
		of("slot/aer_dev_fatal", bad, "slot-aer-fatal"),
		of("slot/aer_dev_nonfatal", poor, "slot-aer-nonfatal"),
		of("root/aer_rootport_total_err_fatal", bad, "root-aer-fatal"),
		of("root/aer_rootport_total_err_nonfatal", poor, "root-aer-nonfatal"),
	})
}

// A healthy card with all files: the whole port.
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
			Name: "dfl-port.0", AFUID: afuID, InterfaceID: pacID, Nodes: []string{"dfl-port.0"},
			Parent: "dfl-fme.0", ParentNodes: []string{"dfl-fme.0"},
		},
		"opae": {
			Name: "intel-fpga-port.0", AFUID: "00112233445566778899aabbccddeeff", InterfaceID: "a1b2c3d4e5f60718293a4b5c6d7e8f90",
			Nodes: []string{"intel-fpga-port.0"}, Parent: "intel-fpga-fme.0", ParentNodes: []string{"intel-fpga-fme.0"},
		},
	} {
		t.Run(family, func(t *testing.T) {
			want.PortIDKnown, want.AFUIDKnown, want.InterfaceIDKnown = true, true, true
			want.PCIID, want.NUMANode = "8086:09c4:8086:0000", 1
			want.Files, want.Counters = judged(family), counters
			got := newRig(t, family).read(t)
			got.Incarnation, got.NodeNumbers = 0, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("port (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFiles takes each file away, puts a directory in its place, and rubbish. A
// file that is absent is not judged here; one that cannot be read, or holds what
// it may not hold, is as bad as the reading says of its loss.
func TestFiles(t *testing.T) {
	for _, family := range []string{"dfl", "opae"} {
		r := newRig(t, family)
		for _, f := range judged(family) {
			if f.Name == "fme/driver" || f.Name == "fme/hwmon" {
				continue // no files: TestFMEDriver, TestHWMon
			}
			unreadable := []inventory.Condition{of(f.Row, "unreadable="+f.Name, f.Lost)}
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
					if diff := cmp.Diff(tt.want, got.Conditions, ignoreErr); diff != "" {
						t.Errorf("conditions (-want +got):\n%s", diff)
					}
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
		if got := r.read(t).Conditions; got != nil {
			t.Errorf("%s: all is good again, but conditions = %+v", family, got)
		}
	}
}
