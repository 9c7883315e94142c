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
