package port_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// rig is a host with one card that has all health files.
type rig struct {
	family  inventory.Family
	host    sysfs.Host
	address string
	pci     string            // the card's directory; slot and root are above it
	port    string            // the port's directory, relative to pci
	fme     string            // the FME's directory, relative to pci
	numbers map[string]string // names below fme/ without the driver's numbers -> paths with the numbers
}

// newRig unpacks the board for family, dfl or opae, and adds config.
func newRig(t testing.TB, family string) *rig {
	t.Helper()
	r := map[string]*rig{
		"dfl": {
			family: dfl.Family(port.PerPort), address: "0000:03:00.0",
			pci:  "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:03:00.0",
			port: "fpga_region/region0/dfl-port.0", fme: "fpga_region/region0/dfl-fme.0",
			numbers: map[string]string{
				"compat_id": "dfl-fme-region.1/fpga_region/region1/compat_id",
				"manager":   "dfl-fme-mgr.0/fpga_manager/fpga0/state",
				"thermal":   "hwmon/hwmon0", "power": "hwmon/hwmon1",
			},
		},
		"opae": {
			family: opae.Family(port.PerPort), address: "0000:83:00.0",
			pci:  "pci0000:80/0000:80:02.0/0000:81:00.0/0000:82:08.0/0000:83:00.0",
			port: "fpga/intel-fpga-dev.0/intel-fpga-port.0", fme: "fpga/intel-fpga-dev.0/intel-fpga-fme.0",
			numbers: map[string]string{"manager": "fpga_manager/fpga0/state"},
		},
	}[family]
	r.host = familytest.Node(t, family+"-all-files")
	r.pci = filepath.Join(r.host.Sys, "devices", r.pci)
	r.put(t, "pci/config", alive)
	return r
}

// The first bytes of config: vendor 8086 and device 09c4, or all ones if the device has left the bus.
const alive, gone = "\x86\x80\xc4\x09\x06\x00\x10\x00", "\xff\xff\xff\xff\xff\xff\xff\xff"

// path returns the path of the file that has this name when it is read.
func (r *rig) path(name string) string {
	part, rest, _ := strings.Cut(name, "/")
	switch part {
	case "fme":
		first, below, _ := strings.Cut(rest, "/")
		if dir, ok := r.numbers[first]; ok {
			rest = filepath.Join(dir, below)
		}
		return filepath.Join(r.pci, r.fme, rest)
	case "pci":
		return filepath.Join(r.pci, rest)
	case "slot":
		return filepath.Join(r.pci, "..", rest)
	case "root":
		return filepath.Join(r.pci, "../../..", rest)
	}
	return filepath.Join(r.pci, r.port, name)
}

// put replaces a file's content. If content is absent or directory, it removes the file or replaces it with a
// directory.
func (r *rig) put(t testing.TB, name, content string) {
	t.Helper()
	path := r.path(name)
	edit(t, filepath.Dir(path), map[string]string{filepath.Base(path): content})
}

// swap is like put, but returns the previous content.
func (r *rig) swap(t testing.TB, name, content string) string {
	t.Helper()
	old := must.Value(os.ReadFile(r.path(name)))(t)
	r.put(t, name, content)
	return string(old)
}

// read reads the card's only port.
func (r *rig) read(t testing.TB) inventory.Unit {
	t.Helper()
	reading, err := r.family.Read(r.host, r.address)
	if err != nil || len(reading.Units) != 1 {
		t.Fatalf("reading %+v, error %v", reading, err)
	}
	return reading.Units[0]
}

// ofRow returns the condition for a row whose name is the whole reason.
func ofRow(reason string, health inventory.Health) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: health, Row: reason}
}

// withRow returns a condition for row, where the reason is the row's name and a value.
func withRow(row, reason string, health inventory.Health) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: health, Row: row}
}

func dead(reason string) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: inventory.Unhealthy, Row: reason, Dead: true}
}

// healthOf returns a reason's severity in rowCases.
func healthOf(reason string) inventory.Health {
	for _, s := range rowCases {
		if s.reason == reason {
			return s.health
		}
	}
	panic(reason + ": found none in rowCases")
}
