package dfl_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// TestKernel compares the devices published for the boards that were recorded on a real kernel (`make fixtures`). The
// expected devices are written by hand, because they are what docs/health.md promises.
func TestKernel(t *testing.T) {
	const (
		a10, d5005, a10VF = "8086:09c4:8086:0000", "8086:0b2b:8086:138d", "8086:09c5:8086:0000"
		d5005Interface    = "9346116d4e4cb66ea1cbe92e1e1f8f5e"
	)
	shell, ofs := map[string]string{"bitstreamId": "0x123000200000185"}, map[string]string{"bitstreamId": "0x501020222df1b7a"}
	// first returns the device that most boards have in the first slot, after applying the changes.
	first := func(health inventory.Health, reasons []string, changes ...func(*inventory.Device)) *inventory.Device {
		d := &inventory.Device{
			ID: "01:00.0", Family: "dfl", Health: health, Reasons: reasons, Fault: health == inventory.Unhealthy,
			PCIAddress: "0000:01:00.0", Facts: inventory.Facts{PCIID: a10, NUMANode: -1, PortID: 0, AFUID: afuA, InterfaceID: pac,
				Nodes: []string{"dfl-port.0"}, Parent: "dfl-fme.0", ParentNodes: []string{"dfl-fme.0"}, Attributes: shell},
		}
		if len(reasons) > 0 && reasons[0] != "reprogramming" { // reprogramming is normal for a while
			d.Cause = reasons[0]
		}
		for _, change := range changes {
			change(d)
		}
		return d
	}
	second := func(node, parent string) *inventory.Device {
		return &inventory.Device{
			ID: "02:00.0", Family: "dfl", Health: inventory.Healthy,
			PCIAddress: "0000:02:00.0", Facts: inventory.Facts{PCIID: d5005, NUMANode: -1, PortID: 0, AFUID: afuB, InterfaceID: d5005Interface,
				Nodes: []string{node}, Parent: parent, ParentNodes: []string{parent}, Attributes: shell},
		}
	}
	numbered := func(node, parent string) func(*inventory.Device) {
		return func(d *inventory.Device) {
			d.Nodes, d.Parent, d.ParentNodes = []string{node}, parent, []string{parent}
		}
	}
	noPort := func(d *inventory.Device) { d.PortID, d.AFUID = -1, "" }
	noAFU := func(d *inventory.Device) { d.AFUID = "" }
	noInterface := func(d *inventory.Device) { d.InterfaceID, d.Attributes = "", nil } // the FME doesn't have a driver
	virtual := &inventory.Device{
		ID: "02:00.0", Family: "dfl", Health: inventory.Healthy,
		PCIAddress: "0000:02:00.0", Facts: inventory.Facts{PCIID: a10VF, NUMANode: -1, PortID: 0, AFUID: afuA, Nodes: []string{"dfl-port.1"}},
	}
	boards := map[string][]*inventory.Device{
		"one-card":             {first(inventory.Healthy, nil)},
		"two-cards":            {first(inventory.Healthy, nil), second("dfl-port.1", "dfl-fme.1")},
		"two-cards-renumbered": {first(inventory.Healthy, nil, numbered("dfl-port.1", "dfl-fme.1")), second("dfl-port.0", "dfl-fme.0")},
		"virtual-function":     {first(inventory.Healthy, nil), virtual},
		"two-ports": {first(inventory.Healthy, nil), first(inventory.Healthy, nil, func(d *inventory.Device) {
			d.ID, d.PortID, d.AFUID, d.Nodes = "01:00.0-p1", 1, "f7df405cbd7acf7222f144b0b93acd18", []string{"dfl-port.1"}
		})},
		"several-functions": {first(inventory.Healthy, nil, noAFU, func(d *inventory.Device) {
			d.PCIID, d.InterfaceID, d.Attributes = "8086:bcce:8086:1770", "98b4d5bc98ba5f4b98d9a2841ccf11b0", ofs
		})},
		"vfio-group-not-viable": {first(inventory.Healthy, nil, noAFU, func(d *inventory.Device) {
			d.PCIID, d.InterfaceID, d.Attributes = "8086:bcce:8086:1770", "98b4d5bc98ba5f4b98d9a2841ccf11b0", ofs
		})},
		"no-driver":     nil,
		"port-released": nil,
		"port-assigned": {first(inventory.Unhealthy, []string{"driver-unbound"}, noPort)},
		"port-unbound":  {first(inventory.Unhealthy, []string{"driver-unbound"}, noPort)},
		"fme-unbound":   {first(inventory.Unhealthy, []string{"fme-unbound"}, noInterface)},
		"port-ap6":      {first(inventory.Unhealthy, []string{"port-ap6", "power-throttled=6"})},
		"dead-card":     {first(inventory.Unhealthy, []string{"afu-dead", "fme-dead", "pci-gone"}, noPort, func(d *inventory.Device) { d.Attributes = nil })},
		"fme-errors": {first(inventory.Unhealthy, []string{
			"fme-fatal=thermal",
			"fme-error=fabric", "fme-error=fabric-fifo", "fme-nonfatal=temperature-ap1", "fme-pcie0=completion-timeout",
		})},
		"thermal-alarm":      {first(inventory.Unhealthy, []string{"alarm-crit=temp1", "alarm-max=temp1"})},
		"programming":        {first(inventory.Degraded, []string{"reprogramming"}, noAFU)},
		"programming-failed": {first(inventory.Degraded, []string{"programming-failed", "reprogramming"}, noAFU)},
	}
	files, err := filepath.Glob("../../testdata/sysfs/kernel-*.txtar")
	if err != nil || len(files) < len(boards) {
		t.Fatalf("%d boards, error %v; want %d", len(files), err, len(boards))
	}
	for _, file := range files {
		board := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(board, func(t *testing.T) {
			want, ok := boards[strings.SplitN(board, "-", 3)[2]]
			if !ok && !strings.Contains(board, "-vfio-") && !strings.Contains(board, "-xrt-") && !strings.Contains(board, "-aws-") { // these are other families'
				t.Fatal("found no expected devices for this board")
			}
			host, busy := recorded(t, board)
			compare.Values(t, "devices", want, publishedDevices(t, host, programmed{dfl.Family(port.PerPort), busy}), cmpopts.IgnoreFields(inventory.Device{}, "NodeNumbers", "Memory"))
		})
	}
}
