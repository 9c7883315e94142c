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
)

// rig is a node with one card that has every file that is judged.
type rig struct {
	family  inventory.Family
	host    sysfs.Host
	address string
	pci     string            // directory of the card; slot and root are above it
	port    string            // directory of the port, relative to pci
	fme     string            // directory of the FME, relative to pci
	numbers map[string]string // names below fme/ that leave the driver's numbers out
}

// newRig unfolds the board of family, dfl or opae, and adds config.
func newRig(t testing.TB, family string) *rig {
	t.Helper()
	r := map[string]*rig{
		"dfl": {
			family: dfl.Family{}, address: "0000:03:00.0",
			pci:  "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:03:00.0",
			port: "fpga_region/region0/dfl-port.0", fme: "fpga_region/region0/dfl-fme.0",
			numbers: map[string]string{
				"compat_id": "dfl-fme-region.1/fpga_region/region1/compat_id",
				"manager":   "dfl-fme-mgr.0/fpga_manager/fpga0/state",
				"thermal":   "hwmon/hwmon0", "power": "hwmon/hwmon1",
			},
		},
		"opae": {
			family: opae.Family{}, address: "0000:83:00.0",
			pci:  "pci0000:80/0000:80:02.0/0000:81:00.0/0000:82:08.0/0000:83:00.0",
			port: "fpga/intel-fpga-dev.0/intel-fpga-port.0", fme: "fpga/intel-fpga-dev.0/intel-fpga-fme.0",
			numbers: map[string]string{"manager": "fpga_manager/fpga0/state"},
		},
	}[family]
	r.host = node(t, family+"-all-files")
	r.pci = filepath.Join(r.host.Sys, "devices", r.pci)
	r.put(t, "pci/config", alive)
	return r
}

// What config begins with: vendor 8086, device 09c4; or nothing that answers.
const alive, gone = "\x86\x80\xc4\x09\x06\x00\x10\x00", "\xff\xff\xff\xff\xff\xff\xff\xff"

// path is where the file with this name of a reading stands.
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

// put puts content, or absent or directory, in place of a file.
func (r *rig) put(t testing.TB, name, content string) {
	t.Helper()
	path := r.path(name)
	edit(t, filepath.Dir(path), map[string]string{filepath.Base(path): content})
}

// swap is put; it returns what was there.
func (r *rig) swap(t testing.TB, name, content string) string {
	t.Helper()
	old, err := os.ReadFile(r.path(name))
	if err != nil {
		t.Fatal(err)
	}
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

// is is the condition of a line of the table whose value, if any, is listed there.
func is(reason string, health inventory.Health) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: health, Row: reason}
}

// of is a condition that comes from the line row.
func of(row, reason string, health inventory.Health) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: health, Row: row}
}

func dead(reason string) inventory.Condition {
	return inventory.Condition{Reason: reason, Health: inventory.Unhealthy, Row: reason, Dead: true}
}

// healthOf looks a reason up in spoken.
func healthOf(reason string) inventory.Health {
	for _, s := range spoken {
		if s.reason == reason {
			return s.health
		}
	}
	panic(reason + " is not among the lines")
}
