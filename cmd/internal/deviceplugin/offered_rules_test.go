package deviceplugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Rules for resources, on a board in a mode. The first rule that matches gives a device its resource, the mode
// gives it to the rest, and -o wide lists rules that apply to no device.
func TestOfferedByRules(t *testing.T) {
	const idle = "accelerator-device-plugin: no device is offered by rule "
	for _, tt := range []struct {
		name, board, mode string
		rules             string // below resources:
		want              []offered
		says              string // -o wide, on stderr
	}{
		{"first match wins", "dfl-two-ports", "af", `
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
- {name: example.com/card, match: {pciAddress: "0001:3b:00.0"}}
- {name: example.com/dma, match: {afuId: bfaf2ae94a5246e382fe38f0f9e17764}}
- {name: example.com/gone, match: {pciVendor: "1234", pciDevice: abcd}}
`, []offered{
			well("0001:3b:00.0", "example.com/nlb", "dfl-port.9"), well("0001:3b:00.0-p1", "example.com/card", "dfl-port.10"),
		}, idle + "3 of resources: example.com/dma for afuId=bfaf2ae94a5246e382fe38f0f9e17764\n" +
			idle + "4 of resources: example.com/gone for pciVendor=1234 pciDevice=abcd\n"},
		{"the other order", "dfl-two-ports", "af", `
- {name: example.com/card, match: {pciAddress: "0001:3b:00.0"}}
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
`, []offered{
			well("0001:3b:00.0", "example.com/card", "dfl-port.9"), well("0001:3b:00.0-p1", "example.com/card", "dfl-port.10"),
		}, idle + "2 of resources: example.com/nlb for afuId=d8424dc4a4a3c413f89e433683f9040b\n"},
		{"the mode names the rest", "kernel-6.1-two-cards", "af", `
- {name: example.com/big, match: {pciVendor: "8086", pciDevice: 0b2b}}
`, []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", "example.com/big", "dfl-port.1")}, ""},
		{"the rest of mode single", "kernel-6.1-two-cards", "single", `
- {name: example.com/big, match: {interfaceId: 9346116d4e4cb66ea1cbe92e1e1f8f5e}}
`, []offered{well("01:00.0", testResource, "dfl-port.0"), well("02:00.0", "example.com/big", "dfl-port.1")}, ""},
		{"a region, by its interface", "kernel-6.1-two-cards", "region", `
- {name: example.com/big, match: {interfaceId: 9346116d4e4cb66ea1cbe92e1e1f8f5e}}
`, []offered{well("01:00.0", regionPAC, "dfl-port.0"), well("02:00.0", "example.com/big", "dfl-port.1")}, ""},
		{"pods change the AFU of a region", "kernel-6.1-one-card", "region", `
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
- {name: example.com/card, match: {pciAddress: "01:00.0", afuId: d8424dc4a4a3c413f89e433683f9040b}}
`, []offered{well("01:00.0", regionPAC, "dfl-port.0")},
			idle + "1 of resources: example.com/nlb for afuId=d8424dc4a4a3c413f89e433683f9040b\n" +
				idle + "2 of resources: example.com/card for pciAddress=01:00.0 afuId=d8424dc4a4a3c413f89e433683f9040b\n"},
		{"a region of several ports", "dfl-two-ports", "regiondevel", `
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
- {name: example.com/card, match: {pciAddress: "0001:3b:00.0"}}
`, []offered{well("0001:3b:00.0", "example.com/card", "dfl-port.9", "dfl-port.10", "dfl-fme.0")},
			idle + "1 of resources: example.com/nlb for afuId=d8424dc4a4a3c413f89e433683f9040b\n"},
		{"what the mode cannot name", "kernel-6.1-virtual-function", "af", `
- {name: example.com/vf, match: {pciAddress: "0000:02:00.0", family: dfl}}
`, []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", "example.com/vf", "dfl-port.1")}, ""},
		{"a driver's", "opae-one-card", "region", `
- {name: example.com/dfl, match: {family: dfl}}
- {name: example.com/opae, match: {family: opae}}
`, []offered{well("82:00.0", "example.com/opae", "intel-fpga-port.0")},
			idle + "1 of resources: example.com/dfl for family=dfl\n"},
		{"an unhealthy one", "kernel-6.1-port-unbound", "af", `
- {name: example.com/slot, match: {pciAddress: "01:00.0"}}
`, []offered{bad(well("01:00.0", "example.com/slot", "dfl-port.0"), "driver-unbound")}, ""},
		{"ids as people write them", "kernel-6.1-one-card", "single", `
- {name: example.com/nlb, match: {afuId: D8424DC4-A4A3-C413-F89E-433683F9040B}}
`, []offered{well("01:00.0", "example.com/nlb", "dfl-port.0")}, ""},
		{"no card", "kernel-6.1-no-driver", "af", `
- {name: example.com/any, match: {family: dfl}}
`, []offered{}, idle + "1 of resources: example.com/any for family=dfl\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := unfold(t, tt.board)
			_, socket := servePods(t)
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte("resources:"+tt.rules), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--config", file, "--mode", tt.mode, "--pod-resources-socket", socket}
			if diff := cmp.Diff(tt.want, devicesOf(t, root, args...)); diff != "" {
				t.Errorf("-o json (-want +got):\n%s", diff)
			}
			table, says, code := devicesIn(t, "wide", root, args...)
			if code != 0 || says != tt.says {
				t.Errorf("-o wide: exit code %d, stderr (-want +got):\n%s", code, cmp.Diff(tt.says, says))
			}
			for _, d := range tt.want {
				if !strings.Contains(table, d.Resource) {
					t.Errorf("-o wide: no %s in\n%s", d.Resource, table)
				}
			}
		})
	}
}

// In mode pool, rules have no effect.
func TestOfferedByRulesInPool(t *testing.T) {
	root := unfold(t, "kernel-6.1-one-card")
	_, socket := servePods(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("resources:\n- {name: example.com/any, match: {family: dfl}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, says, code := devicesIn(t, "wide", root, "--config", file, "--mode", "pool", "--accel-nbunits", "2", "--pod-resources-socket", socket)
	want := "accelerator-device-plugin: no device is offered by rule 1 of resources: example.com/any for family=dfl\n"
	if code != 0 || says != want || strings.Count(table, testResource) != 2 {
		t.Errorf("exit code %d, stderr %q, want %q and two units:\n%s", code, says, want, table)
	}
}
