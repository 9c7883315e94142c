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

// registers lists the bits in files, in order from the first one, and the reason that each of them causes. Like
// rowCases, it is based on the documents, not on the code.
var registers = []struct {
	file   string
	health inventory.Health
	row    string
	first  int
	values string // the reason is ROW=VALUE
}{
	{"errors/errors", poor, "port-tx", 0, "ch0-overflow ch0-encoding ch0-len3 ch0-len2 ch0-len4"},
	{"errors/errors", poor, "port-mmio-in-reset", 9, "read write"},
	{"errors/errors", poor, "port-tx", 16, "ch1-overflow ch1-encoding ch1-len3 ch1-len2 ch1-len4 ch1-short ch1-overrun ch1-address ch1-sop ch1-vc"},
	{"errors/errors", poor, "port-tx", 33, "ch2-overflow"},
	{"errors/errors", poor, "port-tx", 40, "request-overflow"},
	{"errors/errors", poor, "port-address", 41, "smrr smrr2 me protected legacy-low legacy-high vga"},
	{"fme/errors/catfatal_errors", bad, "fme-fatal", 0, "link cache cci protocol dram iommu fabric poison"},
	{"fme/errors/catfatal_errors", bad, "fme-fatal", 8, "injected-fatal crc thermal injected-catastrophic 0x1000"},
	{"fme/errors/nonfatal_errors", poor, "fme-nonfatal", 0, "temperature-ap1 temperature-ap2 pcie port-fatal proc-hot access-mode"},
	{"fme/errors/nonfatal_errors", poor, "fme-nonfatal", 6, "injected-warning poison crc"},
	{"fme/errors/nonfatal_errors", poor, "fme-nonfatal", 10, "power-ap1 power-ap2 mbp 0x2000"},
	{"fme/errors/fme_errors", poor, "fme-error", 0, "fabric fabric-fifo kti-parity kti-parity iommu-parity access-mode mbp pcie0-parity"},
	{"fme/errors/fme_errors", poor, "fme-error", 11, "pcie0-parity pcie1-parity"},
	{"fme/errors/fme_errors", poor, "fme-error", 16, "pcie1-parity memory-parity"},
	{"fme/errors/fme_errors", poor, "fme-error", 19, "memory-parity 0x100000"},
	{"fme/errors/pcie0_errors", poor, "fme-pcie0", 0, pcieErrors + " 0x400"},
	{"fme/errors/pcie1_errors", poor, "fme-pcie1", 0, pcieErrors},
}

const pcieErrors = "format write-address write-length read-address read-length completion-tag completion-status completion-timeout parity poison"

// rowCases lists file values and the reason that each of them causes. If the value is an int, it is a bit number.
var rowCases = append([]rowCase{
	{"errors/errors", 32, poor, "port-mmio-timeout"},
	{"errors/errors", 34, poor, "port-mmio-unexpected"},
	{"errors/errors", 48, poor, "port-page-fault"},
	{"errors/errors", 49, poor, "port-pmr"},
	{"errors/errors", 50, bad, "port-ap6"},
	{"errors/errors", 51, poor, "port-vf-flr"},
	{"errors/errors", 63, poor, "port-error=0x8000000000000000"},
	{"power_state", "0x1\n", poor, "power-throttled=1"},
	{"power_state", "0x2\n", poor, "power-throttled=2"},
	{"power_state", "0x6\n", bad, "power-throttled=6"},

	{"fme/errors/nonfatal_errors", 9, bad, "fme-ap6"},
	{"fme/errors/pcie0_errors", 62, fine, ""},
	{"fme/errors/pcie0_errors", 63, fine, ""},
	{"fme/errors/pcie0_errors", "0xc000000000000001\n", poor, "fme-pcie0=format"},
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
}, registerCases()...)

type rowCase struct {
	file   string
	value  any
	health inventory.Health
	reason string
}

func registerCases() (cases []rowCase) {
	for _, r := range registers {
		for i, value := range strings.Fields(r.values) {
			cases = append(cases, rowCase{r.file, r.first + i, r.health, r.row + "=" + value})
		}
	}
	return cases
}

// deadCases lists the values read from parts that don't respond.
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

// rowsWithoutValue lists the rows that aren't caused by a file's value, but by a read that fails (TestTakeAFU), a file
// that is gone (tested in package inventory), or a counter that rises.
var rowsWithoutValue = []string{
	"reprogramming", "fme-unbound",
	"aer-fatal", "aer-nonfatal", "slot-aer-fatal", "slot-aer-nonfatal", "root-aer-fatal", "root-aer-nonfatal",
}

// inDriver returns a file's name with the family's driver, or false if the driver doesn't have the file.
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

// TestRows triggers each row's condition and clears it again, with both drivers, and checks that every row has a case.
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
				compare.Empty(t, "value as before: conditions", r.read(t).Conditions)
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

// Each bit is a condition of its own, with its own severity. All bits without a row are a single condition.
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
