package port_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/board"
)

// recordings is the directory of trees that were recorded from real cards and kernels. They are
// not part of the repository; without them the test is skipped.
const recordings = "../../../shared/recordings"

const nlbAFU, pacID, otherID = "d8424dc4a4a3c413f89e433683f9040b",
	"69528db6eb31577a8c3668f9faa081f6", "9346116d4e4cb66ea1cbe92e1e1f8f5e"

// recorded has the expected summary of each archive: a line for each port, and for each card
// without a port. Recordings of the kernel have no nodes; the test makes them. The link of the
// N6000 is slower than the card because of its slot, which was not recorded.
var recorded = map[string][]string{
	"dfl-d5005.tar.gz": {
		"dfl 0000:05:00.0 dfl-port.0 id=0 afu=f7df405cbd7acf7222f144b0b93acd18 if=9346116da52d5ca8b06aa9a389ef7c8d fme=dfl-fme.0"},
	"dfl-n3000.tar.gz": {
		"dfl 0000:05:00.0 dfl-port.0 id=0 afu=9aeffe5f84570612c000c9660d824272 if=a5d72a3cc8b04939912cf715e5dc10ca fme=dfl-fme.0"},
	"dfl-n6000-ofs.tar.gz": {
		"dfl 0000:01:00.0 dfl-port.0 id=0 afu= if=98b4d5bc98ba5f4b98d9a2841ccf11b0 fme=dfl-fme.0 link-speed=8.0 link-width=8",
		"dfl 0000:01:00.1", "dfl 0000:01:00.2", "dfl 0000:01:00.4"},
	"dfl-pac-a10.tar.gz": {
		"dfl 0000:05:00.0 dfl-port.0 id=0 afu=" + nlbAFU + " if=f64e598bea11517fa28e7bc65d885104 fme=dfl-fme.0"},
	"opae-pac-a10.tar.gz": {
		"opae 0000:05:00.0 intel-fpga-port.0 id=0 afu=" + nlbAFU +
			" if=f64e598bea11517fa28e7bc65d885104 fme=intel-fpga-fme.0"},
	"kernel-6.1/sysfs/one-card.tar.gz":       {kernelPort("01", 0, 0, pacID)},
	"kernel-6.1/sysfs/one-card-again.tar.gz": {kernelPort("01", 0, 0, pacID)},
	"kernel-6.1/sysfs/two-cards.tar.gz":      {kernelPort("01", 0, 0, pacID), kernelPort("02", 1, 1, pacID)},
	"kernel-6.1/sysfs/port1-released.tar.gz": {kernelPort("01", 0, 0, pacID), "dfl 0000:02:00.0"},
	"kernel-6.1/sysfs/port0-error-ap6.tar.gz": {
		kernelPort("01", 0, 0, pacID) + " port-tx=ch0-overflow power-throttled=6",
		"dfl 0000:02:00.0 dfl-port.1 id=? afu=? if=" + pacID + " fme=dfl-fme.1 driver-unbound"},
	"kernel-6.1/sysfs/card-and-vf.tar.gz": {kernelPort("01", 0, 0, pacID), kernelPort("03", 1, -1, "")},
	"kernel-6.1/sysfs/three-cards-and-vf.tar.gz": {
		kernelPort("01", 0, 0, pacID),
		strings.Replace(kernelPort("02", 2, 1, otherID), nlbAFU, "bfaf2ae94a5246e382fe38f0f9e17764", 1),
		kernelPort("03", 1, -1, ""), kernelPort("04", 3, 2, pacID)},
	"kernel-6.1/sysfs/after-reload.tar.gz": {
		strings.Replace(kernelPort("02", 1, 0, otherID), nlbAFU, "bfaf2ae94a5246e382fe38f0f9e17764", 1),
		kernelPort("03", 0, -1, ""), kernelPort("04", 2, 1, pacID)},
}

// recordedRegions has the same in mode region. Names and nodes are those that Intel's plugin gives
// for the archives. A virtual function has no FME, and so no interface id.
var recordedRegions = map[string][]string{
	"dfl-d5005.tar.gz": {
		"dfl 0000:05:00.0 region0 id=0 afu=f7df405cbd7acf7222f144b0b93acd18 if=9346116da52d5ca8b06aa9a389ef7c8d fme=dfl-fme.0 nodes=dfl-port.0"},
	"dfl-n3000.tar.gz": {
		"dfl 0000:05:00.0 region0 id=0 afu=9aeffe5f84570612c000c9660d824272 if=a5d72a3cc8b04939912cf715e5dc10ca fme=dfl-fme.0 nodes=dfl-port.0"},
	"dfl-n6000-ofs.tar.gz": {
		"dfl 0000:01:00.0 region0 id=0 afu= if=98b4d5bc98ba5f4b98d9a2841ccf11b0 fme=dfl-fme.0 nodes=dfl-port.0 link-speed=8.0 link-width=8",
		"dfl 0000:01:00.1", "dfl 0000:01:00.2", "dfl 0000:01:00.4"},
	"dfl-pac-a10.tar.gz": {
		"dfl 0000:05:00.0 region0 id=0 afu=" + nlbAFU + " if=f64e598bea11517fa28e7bc65d885104 fme=dfl-fme.0 nodes=dfl-port.0"},
	"opae-pac-a10.tar.gz": {
		"opae 0000:05:00.0 intel-fpga-dev.0 id=0 afu=" + nlbAFU +
			" if=f64e598bea11517fa28e7bc65d885104 fme=intel-fpga-fme.0 nodes=intel-fpga-port.0"},
	"kernel-6.1/sysfs/one-card.tar.gz":       {kernelRegion("01", 0, 0, pacID, 0)},
	"kernel-6.1/sysfs/one-card-again.tar.gz": {kernelRegion("01", 0, 0, pacID, 0)},
	"kernel-6.1/sysfs/two-cards.tar.gz":      {kernelRegion("01", 0, 0, pacID, 0), kernelRegion("02", 2, 1, pacID, 1)},
	"kernel-6.1/sysfs/port1-released.tar.gz": {
		kernelRegion("01", 0, 0, pacID, 0), "dfl 0000:02:00.0 region2 id=0 afu=? if=" + pacID + " fme=dfl-fme.1 nodes= no-port"},
	"kernel-6.1/sysfs/port0-error-ap6.tar.gz": {
		kernelRegion("01", 0, 0, pacID, 0) + " port-tx=ch0-overflow power-throttled=6",
		"dfl 0000:02:00.0 region2 id=0 afu=? if=" + pacID + " fme=dfl-fme.1 nodes=dfl-port.1 driver-unbound"},
	"kernel-6.1/sysfs/card-and-vf.tar.gz": {kernelRegion("01", 0, 0, pacID, 0), kernelRegion("03", 2, -1, "", 1)},
	"kernel-6.1/sysfs/three-cards-and-vf.tar.gz": {
		kernelRegion("01", 0, 0, pacID, 0),
		strings.Replace(kernelRegion("02", 3, 1, otherID, 2), nlbAFU, "bfaf2ae94a5246e382fe38f0f9e17764", 1),
		kernelRegion("03", 2, -1, "", 1), kernelRegion("04", 5, 2, pacID, 3)},
	"kernel-6.1/sysfs/after-reload.tar.gz": {
		strings.Replace(kernelRegion("02", 1, 0, otherID, 1), nlbAFU, "bfaf2ae94a5246e382fe38f0f9e17764", 1),
		kernelRegion("03", 0, -1, "", 0), kernelRegion("04", 2, 1, pacID, 2)},
}

// kernelRegion returns the line of a healthy region of our rig. fme is -1 if there is none.
func kernelRegion(bus string, region, fme int, interfaceID string, port int) string {
	parent := ""
	if fme >= 0 {
		parent = fmt.Sprintf("dfl-fme.%d", fme)
	}
	return fmt.Sprintf("dfl 0000:%s:00.0 region%d id=0 afu=%s if=%s fme=%s nodes=dfl-port.%d", bus, region, nlbAFU, interfaceID, parent, port)
}

// withFMENodes returns the lines of regions for mode regiondevel.
func withFMENodes(lines []string) []string {
	lines = slices.Clone(lines)
	for i, line := range lines {
		_, fme, _ := strings.Cut(line, " fme=")
		fme, _, _ = strings.Cut(fme, " ")
		_, nodes, ok := strings.Cut(line, " nodes=")
		nodes, _, _ = strings.Cut(nodes, " ")
		if ok && fme != "" {
			all := strings.TrimPrefix(nodes+","+fme, ",")
			lines[i] = strings.Replace(line, " nodes="+nodes, " nodes="+all, 1)
		}
	}
	return lines
}

// kernelPort returns the line of a healthy port of our rig. fme is -1 if there is none.
func kernelPort(bus string, port, fme int, interfaceID string) string {
	parent := ""
	if fme >= 0 {
		parent = fmt.Sprintf("dfl-fme.%d", fme)
	}
	return fmt.Sprintf("dfl 0000:%s:00.0 dfl-port.%d id=0 afu=%s if=%s fme=%s", bus, port, nlbAFU, interfaceID, parent)
}

func TestRecordings(t *testing.T) {
	if _, err := os.Stat(recordings); err != nil {
		t.Skip("found no recordings")
	}
	var found []string
	for _, pattern := range []string{"*.tar.gz", "*/sysfs/*.tar.gz"} {
		names, err := filepath.Glob(filepath.Join(recordings, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	for _, file := range found {
		name, err := filepath.Rel(recordings, file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			dir, err := board.Unpack(t.TempDir(), file)
			if err != nil {
				t.Fatal(err)
			}
			host := sysfs.Host{Sys: dir + "/sys", Dev: dir + "/dev", Simulated: true}
			if _, err := os.Stat(host.Dev); err != nil {
				checkMissing(t, host)
				makeNodes(t, host)
			}
			for unit, want := range map[port.Kind][]string{
				port.PerPort: recorded[name], port.PerFME: recordedRegions[name], port.PerFMEWithNode: withFMENodes(recordedRegions[name]),
			} {
				if diff := cmp.Diff(want, summary(t, host, unit)); diff != "" {
					t.Errorf("unit %d: cards (-want +got):\n%s", unit, diff)
				}
			}
		})
	}
}

// checkMissing checks that each bound port has the condition node-missing.
func checkMissing(t *testing.T, host sysfs.Host) {
	t.Helper()
	for _, line := range summary(t, host, port.PerPort) {
		if strings.Contains(line, "-port.") && !strings.Contains(line, "node-missing") &&
			!strings.Contains(line, "driver-unbound") {
			t.Errorf("%s: want node-missing", line)
		}
	}
}

// makeNodes makes a node for every port and FME.
func makeNodes(t *testing.T, host sysfs.Host) {
	t.Helper()
	if err := os.Mkdir(host.Dev, 0o755); err != nil {
		t.Fatal(err)
	}
	each(t, host, port.PerFMEWithNode, func(_, _ string, r inventory.Reading) {
		for _, p := range r.Units {
			for _, name := range p.Nodes {
				if err := os.WriteFile(filepath.Join(host.Dev, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// each reads all cards of the host with both families.
func each(t *testing.T, host sysfs.Host, unit port.Kind, do func(family, card string, r inventory.Reading)) {
	t.Helper()
	for _, f := range []inventory.Family{dfl.Family(unit), opae.Family(unit)} {
		cards, err := f.Cards(host)
		if err != nil {
			t.Fatal(err)
		}
		for _, card := range cards {
			r, err := f.Read(host, card)
			if err != nil {
				t.Fatal(err)
			}
			do(f.Name(), card, r)
		}
	}
}

// summary returns a line for each unit of the host, and for each card without a unit.
func summary(t *testing.T, host sysfs.Host, unit port.Kind) []string {
	t.Helper()
	var lines []string
	each(t, host, unit, func(family, card string, r inventory.Reading) {
		if len(r.Units) == 0 {
			lines = append(lines, family+" "+card)
		}
		for _, p := range r.Units {
			lines = append(lines, family+" "+card+" "+describe(p, unit))
		}
	})
	return lines
}

// describe returns the summary of a unit. It omits the node of a port, which has the port's name.
func describe(p inventory.Unit, unit port.Kind) string {
	id, afu, iface := "?", "?", "?"
	if p.PortIDKnown {
		id = fmt.Sprint(p.PortID)
	}
	if p.AFUIDKnown {
		afu = p.AFUID
	}
	if p.InterfaceIDKnown {
		iface = p.InterfaceID
	}
	s := fmt.Sprintf("%s id=%s afu=%s if=%s fme=%s", p.Name, id, afu, iface, p.Parent)
	if unit != port.PerPort {
		s += " nodes=" + strings.Join(p.Nodes, ",")
	}
	for _, c := range p.Conditions {
		s += " " + c.Reason
	}
	return s
}
