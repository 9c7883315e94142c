package port_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
)

const fine, poor, bad = inventory.Healthy, inventory.Degraded, inventory.Unhealthy

// rowCases has values of files, and the reason that each causes. A value that is a number is that of
// a bit. The cases are written from the documents, not from the code.
var rowCases = []struct {
	file   string
	value  any
	health inventory.Health
	reason string
}{
	{"errors/errors", 0, poor, "port-tx=ch0-overflow"},
	{"errors/errors", 1, poor, "port-tx=ch0-encoding"},
	{"errors/errors", 2, poor, "port-tx=ch0-len3"},
	{"errors/errors", 3, poor, "port-tx=ch0-len2"},
	{"errors/errors", 4, poor, "port-tx=ch0-len4"},
	{"errors/errors", 9, poor, "port-mmio-in-reset=read"},
	{"errors/errors", 10, poor, "port-mmio-in-reset=write"},
	{"errors/errors", 16, poor, "port-tx=ch1-overflow"},
	{"errors/errors", 17, poor, "port-tx=ch1-encoding"},
	{"errors/errors", 18, poor, "port-tx=ch1-len3"},
	{"errors/errors", 19, poor, "port-tx=ch1-len2"},
	{"errors/errors", 20, poor, "port-tx=ch1-len4"},
	{"errors/errors", 21, poor, "port-tx=ch1-short"},
	{"errors/errors", 22, poor, "port-tx=ch1-overrun"},
	{"errors/errors", 23, poor, "port-tx=ch1-address"},
	{"errors/errors", 24, poor, "port-tx=ch1-sop"},
	{"errors/errors", 25, poor, "port-tx=ch1-vc"},
	{"errors/errors", 32, poor, "port-mmio-timeout"},
	{"errors/errors", 33, poor, "port-tx=ch2-overflow"},
	{"errors/errors", 34, poor, "port-mmio-unexpected"},
	{"errors/errors", 40, poor, "port-tx=request-overflow"},
	{"errors/errors", 41, poor, "port-address=smrr"},
	{"errors/errors", 42, poor, "port-address=smrr2"},
	{"errors/errors", 43, poor, "port-address=me"},
	{"errors/errors", 44, poor, "port-address=protected"},
	{"errors/errors", 45, poor, "port-address=legacy-low"},
	{"errors/errors", 46, poor, "port-address=legacy-high"},
	{"errors/errors", 47, poor, "port-address=vga"},
	{"errors/errors", 48, poor, "port-page-fault"},
	{"errors/errors", 49, poor, "port-pmr"},
	{"errors/errors", 50, bad, "port-ap6"},
	{"errors/errors", 51, poor, "port-vf-flr"},
	{"errors/errors", 63, poor, "port-error=0x8000000000000000"},
	{"power_state", "0x1\n", poor, "power-throttled=1"},
	{"power_state", "0x2\n", poor, "power-throttled=2"},
	{"power_state", "0x6\n", bad, "power-throttled=6"},

	{"fme/errors/catfatal_errors", 0, bad, "fme-fatal=link"},
	{"fme/errors/catfatal_errors", 1, bad, "fme-fatal=cache"},
	{"fme/errors/catfatal_errors", 2, bad, "fme-fatal=cci"},
	{"fme/errors/catfatal_errors", 3, bad, "fme-fatal=protocol"},
	{"fme/errors/catfatal_errors", 4, bad, "fme-fatal=dram"},
	{"fme/errors/catfatal_errors", 5, bad, "fme-fatal=iommu"},
	{"fme/errors/catfatal_errors", 6, bad, "fme-fatal=fabric"},
	{"fme/errors/catfatal_errors", 7, bad, "fme-fatal=poison"},
	{"fme/errors/catfatal_errors", 8, bad, "fme-fatal=injected-fatal"},
	{"fme/errors/catfatal_errors", 9, bad, "fme-fatal=crc"},
	{"fme/errors/catfatal_errors", 10, bad, "fme-fatal=thermal"},
	{"fme/errors/catfatal_errors", 11, bad, "fme-fatal=injected-catastrophic"},
	{"fme/errors/catfatal_errors", 12, bad, "fme-fatal=0x1000"},
	{"fme/errors/nonfatal_errors", 0, poor, "fme-nonfatal=temperature-ap1"},
	{"fme/errors/nonfatal_errors", 1, poor, "fme-nonfatal=temperature-ap2"},
	{"fme/errors/nonfatal_errors", 2, poor, "fme-nonfatal=pcie"},
	{"fme/errors/nonfatal_errors", 3, poor, "fme-nonfatal=port-fatal"},
	{"fme/errors/nonfatal_errors", 4, poor, "fme-nonfatal=proc-hot"},
	{"fme/errors/nonfatal_errors", 5, poor, "fme-nonfatal=access-mode"},
	{"fme/errors/nonfatal_errors", 6, poor, "fme-nonfatal=injected-warning"},
	{"fme/errors/nonfatal_errors", 7, poor, "fme-nonfatal=poison"},
	{"fme/errors/nonfatal_errors", 8, poor, "fme-nonfatal=crc"},
	{"fme/errors/nonfatal_errors", 9, bad, "fme-ap6"},
	{"fme/errors/nonfatal_errors", 10, poor, "fme-nonfatal=power-ap1"},
	{"fme/errors/nonfatal_errors", 11, poor, "fme-nonfatal=power-ap2"},
	{"fme/errors/nonfatal_errors", 12, poor, "fme-nonfatal=mbp"},
	{"fme/errors/nonfatal_errors", 13, poor, "fme-nonfatal=0x2000"},
	{"fme/errors/fme_errors", 0, poor, "fme-error=fabric"},
	{"fme/errors/fme_errors", 1, poor, "fme-error=fabric-fifo"},
	{"fme/errors/fme_errors", 2, poor, "fme-error=kti-parity"},
	{"fme/errors/fme_errors", 3, poor, "fme-error=kti-parity"},
	{"fme/errors/fme_errors", 4, poor, "fme-error=iommu-parity"},
	{"fme/errors/fme_errors", 5, poor, "fme-error=access-mode"},
	{"fme/errors/fme_errors", 6, poor, "fme-error=mbp"},
	{"fme/errors/fme_errors", 7, poor, "fme-error=pcie0-parity"},
	{"fme/errors/fme_errors", 11, poor, "fme-error=pcie0-parity"},
	{"fme/errors/fme_errors", 12, poor, "fme-error=pcie1-parity"},
	{"fme/errors/fme_errors", 16, poor, "fme-error=pcie1-parity"},
	{"fme/errors/fme_errors", 17, poor, "fme-error=memory-parity"},
	{"fme/errors/fme_errors", 19, poor, "fme-error=memory-parity"},
	{"fme/errors/fme_errors", 20, poor, "fme-error=0x100000"},
	{"fme/errors/pcie0_errors", 0, poor, "fme-pcie0=format"},
	{"fme/errors/pcie0_errors", 1, poor, "fme-pcie0=write-address"},
	{"fme/errors/pcie0_errors", 2, poor, "fme-pcie0=write-length"},
	{"fme/errors/pcie0_errors", 3, poor, "fme-pcie0=read-address"},
	{"fme/errors/pcie0_errors", 4, poor, "fme-pcie0=read-length"},
	{"fme/errors/pcie0_errors", 5, poor, "fme-pcie0=completion-tag"},
	{"fme/errors/pcie0_errors", 6, poor, "fme-pcie0=completion-status"},
	{"fme/errors/pcie0_errors", 7, poor, "fme-pcie0=completion-timeout"},
	{"fme/errors/pcie0_errors", 8, poor, "fme-pcie0=parity"},
	{"fme/errors/pcie0_errors", 9, poor, "fme-pcie0=poison"},
	{"fme/errors/pcie0_errors", 10, poor, "fme-pcie0=0x400"},
	{"fme/errors/pcie0_errors", 62, fine, ""},
	{"fme/errors/pcie0_errors", 63, fine, ""},
	{"fme/errors/pcie0_errors", "0xc000000000000001\n", poor, "fme-pcie0=format"},
	{"fme/errors/pcie1_errors", 0, poor, "fme-pcie1=format"},
	{"fme/errors/pcie1_errors", 1, poor, "fme-pcie1=write-address"},
	{"fme/errors/pcie1_errors", 2, poor, "fme-pcie1=write-length"},
	{"fme/errors/pcie1_errors", 3, poor, "fme-pcie1=read-address"},
	{"fme/errors/pcie1_errors", 4, poor, "fme-pcie1=read-length"},
	{"fme/errors/pcie1_errors", 5, poor, "fme-pcie1=completion-tag"},
	{"fme/errors/pcie1_errors", 6, poor, "fme-pcie1=completion-status"},
	{"fme/errors/pcie1_errors", 7, poor, "fme-pcie1=completion-timeout"},
	{"fme/errors/pcie1_errors", 8, poor, "fme-pcie1=parity"},
	{"fme/errors/pcie1_errors", 9, poor, "fme-pcie1=poison"},
	{"fme/errors/pcie1_errors", 62, poor, "fme-pcie1=0x4000000000000000"},

	{"fme/thermal/temp1_crit_alarm", "1\n", bad, "alarm-crit=temp1"},
	{"fme/thermal/temp1_max_alarm", "1\n", poor, "alarm-max=temp1"},
	{"fme/power/power1_crit_alarm", "1\n", bad, "alarm-crit=power1"},
	{"fme/power/power1_max_alarm", "1\n", poor, "alarm-max=power1"},
	{"fme/thermal_mgmt/threshold2_reached", "1\n", bad, "alarm-crit=thermal"},
	{"fme/thermal_mgmt/threshold1_reached", "1\n", poor, "alarm-max=thermal"},
	{"fme/power_mgmt/threshold2_status", "1\n", bad, "alarm-crit=power"},
	{"fme/power_mgmt/threshold1_status", "1\n", poor, "alarm-max=power"},

	{"fme/manager", "firmware request error\n", poor, "programming-failed"},
	{"fme/manager", "parse header error\n", poor, "programming-failed"},
	{"fme/manager", "write init error\n", poor, "programming-failed"},
	{"fme/manager", "write error\n", poor, "programming-failed"},
	{"fme/manager", "write complete error\n", poor, "programming-failed"},
	{"fme/manager", "operating\n", fine, ""},
	{"fme/manager", "power off\n", fine, ""},
	{"fme/manager", "power up\n", fine, ""},
	{"fme/manager", "reset\n", fine, ""},
	{"fme/manager", "firmware request\n", fine, ""},
	{"fme/manager", "parse header\n", fine, ""},
	{"fme/manager", "write init\n", fine, ""},
	{"fme/manager", "write\n", fine, ""},
	{"fme/manager", "write complete\n", fine, ""},

	{"pci/current_link_speed", "5.0 GT/s PCIe\n", poor, "link-speed=5.0"},
	{"pci/current_link_width", "8\n", poor, "link-width=8"},
}

// deadCases has the values of parts that do not answer.
var deadCases = []struct{ file, value, reason string }{
	{"afu_id", allF + "\n", "afu-dead"},
	{"errors/errors", "0xffffffffffffffff\n", "port-dead"},
	{"power_state", "0xf\n", "port-dead"},
	{"fme/errors/catfatal_errors", "0xffffffffffffffff\n", "fme-dead"},
	{"fme/errors/nonfatal_errors", "0xffffffffffffffff\n", "fme-dead"},
	{"fme/errors/fme_errors", "0xffffffffffffffff\n", "fme-dead"},
	{"fme/errors/pcie0_errors", "0xffffffffffffffff\n", "fme-dead"},
	{"fme/errors/pcie1_errors", "0xffffffffffffffff\n", "fme-dead"},
	{"fme/compat_id", allF + "\n", "fme-dead"},
	{"fme/pr/interface_id", allF + "\n", "fme-dead"},
	{"pci/config", gone, "pci-gone"},
	{"pci/current_link_width", "63\n", "pci-gone"},
}

// rowsWithoutValue has the rows that no value of a file causes: a read that fails (TestTakeAFU), a
// file that is gone (a test of package inventory), a counter that rises.
var rowsWithoutValue = []string{
	"reprogramming", "fme-unbound",
	"aer-fatal", "aer-nonfatal", "slot-aer-fatal", "slot-aer-nonfatal", "root-aer-fatal", "root-aer-nonfatal",
}

// inDriver returns the name of a file with the family's driver, or false if the driver does not have
// the file.
func inDriver(family, file string) (string, bool) {
	if family == "opae" && file == "fme/errors/fme_errors" {
		return "fme/errors/fme-errors/errors", true
	}
	only := map[string]string{
		"fme/compat_id": "dfl", "fme/thermal": "dfl", "fme/power": "dfl",
		"fme/pr": "opae", "fme/thermal_mgmt": "opae", "fme/power_mgmt": "opae",
	}
	for part, owner := range only {
		if (file == part || strings.HasPrefix(file, part+"/")) && owner != family {
			return "", false
		}
	}
	return file, true
}

// TestRows causes the condition of each row and ends it, with both drivers, and checks that every
// row has a case.
func TestRows(t *testing.T) {
	for _, family := range []string{"dfl", "opae"} {
		seen := map[string]bool{}
		for _, reason := range rowsWithoutValue {
			seen[reason] = true
		}
		r := newRig(t, family)
		check := func(file, value string, want ...inventory.Condition) {
			t.Run(fmt.Sprintf("%s/%s=%s", family, file, strings.TrimSpace(value)), func(t *testing.T) {
				old := r.swap(t, file, value)
				compare.Values(t, "conditions", want, r.read(t).Conditions)
				r.put(t, file, old)
				if got := r.read(t).Conditions; got != nil {
					t.Errorf("value as before: conditions %+v, want none", got)
				}
			})
		}
		for _, s := range rowCases {
			file, ok := inDriver(family, s.file)
			if !ok {
				continue
			}
			value, _ := s.value.(string)
			if bit, ok := s.value.(int); ok {
				value = fmt.Sprintf("%#x\n", uint64(1)<<bit)
			}
			if s.health == fine {
				check(file, value)
				continue
			}
			row := rowOf(s.reason)
			seen[row] = true
			check(file, value, withRow(row, s.reason, s.health))
		}
		for _, d := range deadCases {
			if file, ok := inDriver(family, d.file); ok {
				seen[d.reason] = true
				check(file, d.value, dead(d.reason))
			}
		}
		for _, row := range r.family.Rows() {
			if !seen[row.Name] {
				t.Errorf("%s: row %s: found no case", family, row.Name)
			}
			delete(seen, row.Name)
		}
		for row := range seen {
			t.Errorf("%s: case of %s: found no such row in the table", family, row)
		}
	}
}

// rowOf returns the name of the row that a reason comes from.
func rowOf(reason string) string {
	for _, open := range []string{"=0x", "=temp1", "=power1", "=5.0", "=8"} {
		if name, ok := strings.CutSuffix(reason, open); ok {
			return name
		}
	}
	name, _, _ := strings.Cut(reason, "=0x")
	return name
}

func TestFamilies(t *testing.T) {
	for name, f := range in(port.PerPort) {
		familytest.Rows(t, f, "afu-dead", "port-ap6", "pci-gone")
		if !slices.IsSortedFunc(f.Rows(), func(a, b inventory.Row) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: rows are not sorted", name)
		}
		want := map[string]inventory.Signals{
			"dfl": {Nodes: []string{"dfl-"}}, "opae": {Nodes: []string{"intel-fpga-"}, Subsystems: []string{"fpga"}},
		}[name]
		if diff := cmp.Diff(want, f.Signals()); diff != "" || f.Name() != name {
			t.Errorf("%s: name %s, signals (-want +got):\n%s", name, f.Name(), diff)
		}
	}
}

// Several bits are several conditions, each with its own severity. All bits without a line are one
// condition.
func TestManyBits(t *testing.T) {
	r := newRig(t, "dfl")
	r.put(t, "errors/errors", "0x8005000100000061\n")
	r.put(t, "fme/errors/fme_errors", "0x30000d\n")
	r.put(t, "fme/errors/pcie0_errors", "0xc000000000000c00\n")
	want := []inventory.Condition{
		ofRow("port-ap6", bad), ofRow("port-tx=ch0-overflow", poor), ofRow("port-mmio-timeout", poor), ofRow("port-page-fault", poor),
		withRow("port-error", "port-error=0x8000000000000060", poor),
		ofRow("fme-error=fabric", poor), ofRow("fme-error=kti-parity", poor), withRow("fme-error", "fme-error=0x300000", poor),
		withRow("fme-pcie0", "fme-pcie0=0xc00", poor),
	}
	compare.Values(t, "conditions", want, r.read(t).Conditions)
}
