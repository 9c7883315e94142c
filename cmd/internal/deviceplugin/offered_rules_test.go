package deviceplugin_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
)

// Rules for resources, on a board in a mode. The first rule that matches gives a device its resource, and the mode
// names the other devices. Rules that match no device are listed.
func TestOfferedByRules(t *testing.T) {
	for _, tt := range []struct {
		name, board, mode string
		rules             string // below resources:
		want              []offered
		idle              []string
	}{
		{"first match wins", "dfl-two-ports", "af", `
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
- {name: example.com/card, match: {pciAddress: "0001:3b:00.0"}}
- {name: example.com/dma, match: {afuId: bfaf2ae94a5246e382fe38f0f9e17764}}
- {name: example.com/gone, match: {pciVendor: "1234", pciDevice: abcd}}
`, []offered{
			well("0001:3b:00.0", "example.com/nlb", "dfl-port.9"), well("0001:3b:00.0-p1", "example.com/card", "dfl-port.10"),
		}, []string{"rule 3 of resources: example.com/dma for afuId=bfaf2ae94a5246e382fe38f0f9e17764",
			"rule 4 of resources: example.com/gone for pciVendor=1234 pciDevice=abcd"}},
		{"the other order", "dfl-two-ports", "af", `
- {name: example.com/card, match: {pciAddress: "0001:3b:00.0"}}
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
`, []offered{
			well("0001:3b:00.0", "example.com/card", "dfl-port.9"), well("0001:3b:00.0-p1", "example.com/card", "dfl-port.10"),
		}, []string{"rule 2 of resources: example.com/nlb for afuId=d8424dc4a4a3c413f89e433683f9040b"}},
		{"the mode names the rest", "kernel-6.1-two-cards", "af", `
- {name: example.com/big, match: {pciVendor: "8086", pciDevice: 0b2b}}
`, []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", "example.com/big", "dfl-port.1")}, []string{}},
		{"the rest of mode single", "kernel-6.1-two-cards", "single", `
- {name: example.com/big, match: {interfaceId: 9346116d4e4cb66ea1cbe92e1e1f8f5e}}
`, []offered{well("01:00.0", testResource, "dfl-port.0"), well("02:00.0", "example.com/big", "dfl-port.1")}, []string{}},
		{"a region, by its interface", "kernel-6.1-two-cards", "region", `
- {name: example.com/big, match: {interfaceId: 9346116d4e4cb66ea1cbe92e1e1f8f5e}}
`, []offered{well("01:00.0", regionPAC, "dfl-port.0"), well("02:00.0", "example.com/big", "dfl-port.1")}, []string{}},
		{"pods change the AFU of a region", "kernel-6.1-one-card", "region", `
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
- {name: example.com/card, match: {pciAddress: "01:00.0", afuId: d8424dc4a4a3c413f89e433683f9040b}}
`, []offered{well("01:00.0", regionPAC, "dfl-port.0")},
			[]string{"rule 1 of resources: example.com/nlb for afuId=d8424dc4a4a3c413f89e433683f9040b",
				"rule 2 of resources: example.com/card for pciAddress=01:00.0 afuId=d8424dc4a4a3c413f89e433683f9040b"}},
		{"a region of several ports", "dfl-two-ports", "regiondevel", `
- {name: example.com/nlb, match: {afuId: d8424dc4a4a3c413f89e433683f9040b}}
- {name: example.com/card, match: {pciAddress: "0001:3b:00.0"}}
`, []offered{well("0001:3b:00.0", "example.com/card", "dfl-port.9", "dfl-port.10", "dfl-fme.0")},
			[]string{"rule 1 of resources: example.com/nlb for afuId=d8424dc4a4a3c413f89e433683f9040b"}},
		{"what the mode cannot name", "kernel-6.1-virtual-function", "af", `
- {name: example.com/vf, match: {pciAddress: "0000:02:00.0", family: dfl}}
`, []offered{well("01:00.0", nlbOnPAC, "dfl-port.0"), well("02:00.0", "example.com/vf", "dfl-port.1")}, []string{}},
		{"a driver's", "opae-one-card", "region", `
- {name: example.com/dfl, match: {family: dfl}}
- {name: example.com/opae, match: {family: opae}}
`, []offered{well("82:00.0", "example.com/opae", "intel-fpga-port.0")},
			[]string{"rule 1 of resources: example.com/dfl for family=dfl"}},
		{"an unhealthy one", "kernel-6.1-port-unbound", "af", `
- {name: example.com/slot, match: {pciAddress: "01:00.0"}}
`, []offered{bad(well("01:00.0", "example.com/slot", "dfl-port.0"), "driver-unbound")}, []string{}},
		{"ids as people write them", "kernel-6.1-one-card", "single", `
- {name: example.com/nlb, match: {afuId: D8424DC4-A4A3-C413-F89E-433683F9040B}}
`, []offered{well("01:00.0", "example.com/nlb", "dfl-port.0")}, []string{}},
		{"no card", "kernel-6.1-no-driver", "af", `
- {name: example.com/any, match: {family: dfl}}
`, []offered{}, []string{"rule 1 of resources: example.com/any for family=dfl"}},
		{"rules have no effect in mode pool", "kernel-6.1-one-card", "pool", `
- {name: example.com/any, match: {family: dfl}}
accelNbunits: 2
`, []offered{well("0", testResource), well("1", testResource)}, []string{"rule 1 of resources: example.com/any for family=dfl"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := settings(t, "resources:"+tt.rules)
			cfg.Mode = tt.mode
			_, cfg.PodResourcesSocket = servePods(t)
			state := scan(t, unfold(t, tt.board), cfg)
			compare.Values(t, "devices", tt.want, rowsOf(t, state))
			compare.Values(t, "rules that apply to no device", tt.idle, state.IdleRules)
		})
	}
}
