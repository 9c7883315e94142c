package port_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// recordings is the directory with trees that others recorded from real cards. They aren't part of the repository;
// without them, the test is skipped. The boards in testdata are what our own rig recorded.
const recordings = "../../../shared/recordings"

const pacID, otherID = "69528db6eb31577a8c3668f9faa081f6", "9346116d4e4cb66ea1cbe92e1e1f8f5e"

// recorded contains each archive's expected summary: a line for each unit, and for each card without one. UNIT stands
// for an element of recordedUnits. The N6000's link is slower than the card allows because of its slot, which wasn't
// recorded.
var recorded = map[string][]string{
	"dfl-d5005.tar.gz":   {"dfl 0000:05:00.0 UNIT id=0 afu=f7df405cbd7acf7222f144b0b93acd18 if=9346116da52d5ca8b06aa9a389ef7c8d"},
	"dfl-n3000.tar.gz":   {"dfl 0000:05:00.0 UNIT id=0 afu=9aeffe5f84570612c000c9660d824272 if=a5d72a3cc8b04939912cf715e5dc10ca"},
	"dfl-pac-a10.tar.gz": {"dfl 0000:05:00.0 UNIT id=0 afu=d8424dc4a4a3c413f89e433683f9040b if=f64e598bea11517fa28e7bc65d885104"},
	"dfl-n6000-ofs.tar.gz": {
		"dfl 0000:01:00.0 UNIT id=0 afu= if=98b4d5bc98ba5f4b98d9a2841ccf11b0 link-speed=8.0 link-width=8",
		"dfl 0000:01:00.1", "dfl 0000:01:00.2", "dfl 0000:01:00.4"},
	"opae-pac-a10.tar.gz": {"opae 0000:05:00.0 UNIT id=0 afu=d8424dc4a4a3c413f89e433683f9040b if=f64e598bea11517fa28e7bc65d885104"},
}

// recordedUnits contains UNIT's name, FME and device nodes for each family and kind of unit. The names and nodes of
// regions are the ones that Intel's plugin finds in the archives.
var recordedUnits = map[string]map[port.Kind]string{
	"dfl": {
		port.PerPort: "dfl-port.0 of dfl-fme.0 with dfl-port.0", port.PerFME: "region0 of dfl-fme.0 with dfl-port.0",
		port.PerFMEWithNode: "region0 of dfl-fme.0 with dfl-port.0,dfl-fme.0",
	},
	"opae": {
		port.PerPort:        "intel-fpga-port.0 of intel-fpga-fme.0 with intel-fpga-port.0",
		port.PerFME:         "intel-fpga-dev.0 of intel-fpga-fme.0 with intel-fpga-port.0",
		port.PerFMEWithNode: "intel-fpga-dev.0 of intel-fpga-fme.0 with intel-fpga-port.0,intel-fpga-fme.0",
	},
}

func TestRecordings(t *testing.T) {
	if _, err := os.Stat(recordings); err != nil {
		t.Skip("found no recordings")
	}
	for name, lines := range recorded {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if out, err := exec.Command("tar", "-xzf", filepath.Join(recordings, name), "-C", dir).CombinedOutput(); err != nil {
				t.Fatalf("tar: %v\n%s", err, out)
			}
			host := sysfs.Host{Sys: dir + "/tmp/sys", Dev: dir + "/tmp/dev", Simulated: true}
			for _, kind := range []port.Kind{port.PerPort, port.PerFME, port.PerFMEWithNode} {
				family, _, _ := strings.Cut(name, "-")
				want := strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "UNIT", recordedUnits[family][kind]), "\n")
				compare.Values(t, fmt.Sprintf("unit %d: cards", kind), want, summary(t, host, kind))
			}
		})
	}
}

// summary reads all of the host's cards with both families, and returns a line for each unit, and for each card without
// one.
func summary(t *testing.T, host sysfs.Host, kind port.Kind) (lines []string) {
	t.Helper()
	for _, f := range []inventory.Family{dfl.Family(kind), opae.Family(kind)} {
		cards := must.Value(f.Cards(host))(t)
		for _, card := range cards {
			r := must.Value(f.Read(host, card))(t)
			if len(r.Units) == 0 {
				lines = append(lines, f.Name()+" "+card)
			}
			for _, u := range r.Units {
				line := fmt.Sprintf("%s %s %s of %s with %s id=%d afu=%s if=%s",
					f.Name(), card, u.Name, u.Parent, strings.Join(u.Nodes, ","), u.PortID, u.AFUID, u.InterfaceID)
				for _, c := range u.Conditions {
					line += " " + c.Reason
				}
				lines = append(lines, line)
			}
		}
	}
	return lines
}
