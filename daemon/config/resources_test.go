package config_test

import (
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	nlb   = "d8424dc4a4a3c413f89e433683f9040b" // an AFU
	iface = "69528db6eb31577a8c3668f9faa081f6"
)

func TestResources(t *testing.T) {
	named := func(m offer.Match) []offer.Rule { return []offer.Rule{{Resource: "example.com/nlb", Match: m}} }
	one := func(match string) string { return "resources:\n- name: example.com/nlb\n  match: {" + match + "}\n" }
	for _, test := range []struct {
		name, yaml string
		want       []offer.Rule
	}{
		{"not given", "mode: af\n", nil},
		{"empty", "resources: []\n", nil},
		{"last rule taken out", "resources:\n#- name: example.com/nlb\n", nil},
		{"null", "resources: ~\n", nil},
		{"a family that is off", one("family: vfio"), named(offer.Match{Family: "vfio"})},
		{"vendor and device, short", one(`vendor: "8086", device: 09C4`), named(offer.Match{PCIVendor: "8086", PCIDevice: "09c4"})},
		{"vendor short, device long", one(`vendor: "8086", pciDevice: "09c4"`), named(offer.Match{PCIVendor: "8086", PCIDevice: "09c4"})},
		{"subsystem", one(`subsystem: "8086:17D4"`), named(offer.Match{Subsystem: "8086:17d4"})},
		{"subsystem, a number of base 60 to YAML 1.1", one("subsystem: 1000:0000"), named(offer.Match{Subsystem: "1000:0000"})},
		{"physical function", one("physicalFunction: 0000:3B:00.0"), named(offer.Match{PhysicalFunction: "3b:00.0"})},
		{"physical function in another domain", one("physicalFunction: 0001:3b:00.0"), named(offer.Match{PhysicalFunction: "0001:3b:00.0"})},
		{"first virtual function", one("virtualFunction: 0"), named(offer.Match{VirtualFunction: "0"})},
		{"last virtual function", one(`virtualFunction: "65534"`), named(offer.Match{VirtualFunction: "65534"})},
		{"virtual function with zeros in front", one("virtualFunction: 007"), named(offer.Match{VirtualFunction: "7"})},
		{"VBNV", one("vbnv: xilinx_u250_gen3x16_xdma_shell_4_1"), named(offer.Match{VBNV: "xilinx_u250_gen3x16_xdma_shell_4_1"})},
		{"all keys", one(`pciVendor: "8086", pciDevice: "09c4", pciAddress: 3b:00.0, family: dfl, afuId: ` + nlb + ", interfaceId: " + iface),
			named(offer.Match{PCIVendor: "8086", PCIDevice: "09c4", PCIAddress: "3b:00.0", AFUID: nlb, InterfaceID: iface, Family: "dfl"})},
		{"match before name", "resources: [{match: {family: dfl}, name: example.com/nlb}]\n", named(offer.Match{Family: "dfl"})},
		{"capitals", one("pciVendor: 10EE, pciDevice: 09C4, pciAddress: 0001:3B:1F.0, afuId: " + strings.ToUpper(nlb) + ", interfaceId: " + strings.ToUpper(iface)),
			named(offer.Match{PCIVendor: "10ee", PCIDevice: "09c4", PCIAddress: "0001:3b:1f.0", AFUID: nlb, InterfaceID: iface})},
		{"dashes", one("afuId: D8424DC4-a4a3-c413-f89e-433683f9040b, interfaceId: 69528db6-eb31-577a-8c36-68f9faa081f6"),
			named(offer.Match{AFUID: nlb, InterfaceID: iface})},
		{"domain 0", one("pciAddress: 0000:3b:00.0"), named(offer.Match{PCIAddress: "3b:00.0"})},
		// What counts is a value's text, not its YAML type.
		{"whole numbers", one("pciVendor: 8086, pciDevice: 0010"), named(offer.Match{PCIVendor: "8086", PCIDevice: "0010"})},
		{"numbers with exponent", one("pciVendor: 1e10, pciDevice: 0e00"), named(offer.Match{PCIVendor: "1e10", PCIDevice: "0e00"})},
		{"number of 32 digits", one("afuId: 00000000000000000000000000000001"), named(offer.Match{AFUID: strings.Repeat("0", 31) + "1"})},
		{"number with type", one("pciVendor: !!int 8086, pciDevice: !!str 1111"), named(offer.Match{PCIVendor: "8086", PCIDevice: "1111"})},
		{"address of base 60", one("pciAddress: 06:10.0"), named(offer.Match{PCIAddress: "06:10.0"})},
		{"aliases", "hostDevRoot: &d /dev\nresources: &l\n- &r {name: &n example.com/nlb, match: &m {family: &f dfl}}\n- {name: *n, match: {family: *f, pciVendor: \"8086\"}}\n",
			append(named(offer.Match{Family: "dfl"}), named(offer.Match{Family: "dfl", PCIVendor: "8086"})...)},
		{"in their order, the same name twice", "resources:\n" +
			"- {name: z.com/a, match: {family: opae}}\n- {name: a.com/z, match: {family: dfl}}\n- {name: z.com/a, match: {pciVendor: 10ee}}\n",
			[]offer.Rule{
				{Resource: "z.com/a", Match: offer.Match{Family: "opae"}},
				{Resource: "a.com/z", Match: offer.Match{Family: "dfl"}},
				{Resource: "z.com/a", Match: offer.Match{PCIVendor: "10ee"}},
			}},
		{"a rule that matches all devices of a later one", "resources:\n" +
			"- {name: a.com/all, match: {family: dfl}}\n- {name: a.com/some, match: {family: dfl, pciAddress: 3b:00.0}}\n",
			[]offer.Rule{
				{Resource: "a.com/all", Match: offer.Match{Family: "dfl"}},
				{Resource: "a.com/some", Match: offer.Match{Family: "dfl", PCIAddress: "3b:00.0"}},
			}},
	} {
		cfg := must.Value(load(t, nil, nil, test.yaml))(t)
		compare.Values(t, test.name+": resources", test.want, cfg.Resources)
	}
}

const (
	wantRule  = ", want a mapping with match, name"
	wantName  = ", want DOMAIN/NAME, such as example.com/nlb"
	wantMatch = ", want a mapping with at least one of afuId, device, family, interfaceId, pciAddress, pciDevice, pciVendor, physicalFunction, subsystem, vbnv, vendor, virtualFunction"
	wantKeys  = ", want one of afuId, device, family, interfaceId, pciAddress, pciDevice, pciVendor, physicalFunction, subsystem, vbnv, vendor, virtualFunction"
	wantPCI   = `want four hexadecimal digits in quotes, without 0x, such as "09c4"`
	wantID    = "want 32 hexadecimal digits, such as d8424dc4a4a3c413f89e433683f9040b"
	wantCard  = "want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0"
)

// Errors contain one line per mistake, with its location.
func TestResourcesRefusals(t *testing.T) {
	const name = "resources:\n- name: example.com/nlb\n"
	for _, test := range []struct {
		name, yaml string
		want       []string // without the path in front
	}{
		{"one value", "mode: af\nresources: example.com/nlb\n", []string{`2: resources: found "example.com/nlb", want a list of rules with name and match`}},
		{"rules of all kinds", "resources:\n- example.com/nlb\n-\n- [example.com/nlb]\n- ~\n- ''\n- {}\n", []string{
			`2: resources: found "example.com/nlb"` + wantRule,
			"3: resources: found nothing" + wantRule,
			"4: resources: found a list" + wantRule,
			"5: resources: found nothing" + wantRule,
			`6: resources: found ""` + wantRule,
			`7: resources: found no key "name", want match, name`,
			`7: resources: found no key "match", want match, name`,
		}},
		{"no name", "resources:\n- match: {family: dfl}\n", []string{`2: resources: found no key "name", want match, name`}},
		{"a value that is also a key", "resources:\n- name: match\n", []string{
			`2: resources.name: found "match", want DOMAIN/NAME, such as example.com/nlb: resource name "match" is not of the form DOMAIN/NAME`,
			`2: resources: found no key "match", want match, name`,
		}},
		{"misspelt key", name + "  mach: {family: dfl}\n", []string{
			`3: resources: found the key "mach", want one of match, name`,
			`2: resources: found no key "match", want match, name`,
		}},
		{"keys twice", name + "  match: {family: dfl}\n  match: {family: dfl}\n  name: example.com/nlb\n", []string{
			"4: resources.match: found twice, first on line 3, want it once",
			"5: resources.name: found twice, first on line 2, want it once",
		}},
		{"key not a string", name + "  match: {family: dfl}\n  ? [name]\n  : x\n", []string{"4: resources: found a list, want a string as a key"}},

		{"name without domain", "resources:\n- name: nlb\n  match: {family: dfl}\n", []string{`2: resources.name: found "nlb", want DOMAIN/NAME, such as example.com/nlb: resource name "nlb" is not of the form DOMAIN/NAME`}},

		{"match nothing", name + "  match:\n", []string{"3: resources.match: found nothing" + wantMatch}},
		{"match empty", name + "  match: {}\n", []string{
			"3: resources.match: found an empty mapping" + wantMatch}},
		{"unknown keys of match", name + "  match:\n    pciId: 8086:09c4\n    AfuId: x\n    pci-vendor: x\n", []string{
			`4: resources.match: found the key "pciId"` + wantKeys,
			`5: resources.match: found the key "AfuId"` + wantKeys,
			`6: resources.match: found the key "pci-vendor"` + wantKeys,
		}},

		{"twice, by another name", "resources:\n- {name: a.com/x, match: {family: dfl}}\n- {name: a.com/y, match: {family: dfl}}\n", []string{
			"3: resources: found the match twice, first on line 2, want it once: this rule is never used"}},
		{"twice, in other spellings", "resources:\n" +
			"- {name: a.com/x, match: {pciVendor: 10ee, pciDevice: \"09c4\", pciAddress: 3b:00.0, afuId: " + nlb + ", interfaceId: " + iface + "}}\n" +
			"- {match: {interfaceId: 69528DB6-EB31-577A-8C36-68F9FAA081F6, afuId: D8424DC4-A4A3-C413-F89E-433683F9040B,\n" +
			"    pciAddress: 0000:3B:00.0, pciDevice: 09C4, pciVendor: 10EE}, name: a.com/x}\n", []string{
			"3: resources: found the match twice, first on line 2, want it once: this rule is never used"}},
		{"twice, by synonyms", "resources:\n- {name: a.com/x, match: {vendor: 10ee, device: 5005}}\n- {name: a.com/y, match: {pciDevice: 5005, pciVendor: 10EE}}\n", []string{
			"3: resources: found the match twice, first on line 2, want it once: this rule is never used"}},
		{"both pairs of synonyms", name + "  match: {device: 5005, pciVendor: 8086, vendor: 10ee, pciDevice: 5005}\n", []string{
			"3: resources.match.vendor: found it under another name, too, want pciVendor or vendor, and pciDevice or device",
			"3: resources.match.pciDevice: found it under another name, too, want pciVendor or vendor, and pciDevice or device"}},
		{"twice, but the first was refused", "resources:\n- {name: nlb, match: {family: dfl}}\n- {name: a.com/y, match: {family: dfl}}\n", []string{
			`2: resources.name: found "nlb", want DOMAIN/NAME, such as example.com/nlb: resource name "nlb" is not of the form DOMAIN/NAME`}},

		{"several mistakes", "mode: zen\nresources:\n- name: nlb\n  match:\n    pciVendor: 0x8086\n    afuId: nlb\n- name: a.com/x\nexclude: [x]\n", []string{
			`1: mode: found "zen", want one of single, af, region, regiondevel, pool`,
			`3: resources.name: found "nlb", want DOMAIN/NAME, such as example.com/nlb: resource name "nlb" is not of the form DOMAIN/NAME`,
			"5: resources.match.pciVendor: found " + `"0x8086", ` + wantPCI,
			"6: resources.match.afuId: found " + `"nlb", ` + wantID,
			`7: resources: found no key "match", want match, name`,
			`8: exclude: found "x", ` + wantAddress,
		}},
	} {
		t.Run(test.name, func(t *testing.T) { wantRefusal(t, test.yaml, test.want) })
	}
}

// TestMatchRefusals tries invalid values in a match. What counts is a value's text, not its YAML type.
func TestMatchRefusals(t *testing.T) {
	for _, test := range []struct{ key, bad, found, want string }{
		{"pciVendor", "0x09c4", `"0x09c4"`, wantPCI},
		{"vendor", `"8086\n"`, `"8086\n"`, wantPCI},
		{"pciDevice", "1e+10", `"1e+10"`, wantPCI},
		{"device", "!!binary ODA4Ng==", `"ODA4Ng=="`, wantPCI},
		{"pciVendor", "", "nothing", "want one value"},
		{"pciVendor", "!!null 8086", "nothing", "want one value"},
		{"pciVendor", "[8086]", "a list", "want one value"},
		{"pciVendor", "{8086: 1}", "a mapping", "want one value"},
		{"afuId", "*alias", `"info"`, wantID},
		{"afuId", "d8424dc4-a4a3c413-f89e-433683f9040b", `"d8424dc4-a4a3c413-f89e-433683f9040b"`, wantID},
		{"interfaceId", "g" + nlb[1:], `"g` + nlb[1:] + `"`, wantID},
		{"pciAddress", "3b:00.0-p0", `"3b:00.0-p0"`, wantCard},
		{"physicalFunction", "3b:*", `"3b:*"`, wantCard},
		{"subsystem", "8086-1771", `"8086-1771"`, `want four hexadecimal digits, a colon and four more, in quotes, such as "8086:1771"`},
		{"family", "DFL", `"DFL"`, "want one of dfl, opae, vfio"},
		{"virtualFunction", "65535", `"65535"`, "want a whole number from 0 to 65534"},
		{"vbnv", "xilinx u250", `"xilinx u250"`, "want the VBNV of a shell, such as xilinx_u250_gen3x16_xdma_shell_4_1"},
	} {
		t.Run(test.key+"/"+test.bad, func(t *testing.T) {
			wantRefusal(t, "logLevel: &alias info\nresources:\n- name: a.com/x\n  match:\n    "+test.key+": "+test.bad+"\n",
				[]string{"5: resources.match." + test.key + ": found " + test.found + ", " + test.want})
		})
	}
}

// wantRefusal checks that a file is rejected with an error that has these lines.
func wantRefusal(t *testing.T, yaml string, want []string) {
	t.Helper()
	_, err := load(t, nil, nil, yaml)
	if err == nil {
		t.Fatal("accepted")
	}
	var got []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, line, _ = strings.Cut(line, "config.yaml:")
		got = append(got, line)
	}
	compare.Values(t, "error", want, got)
}
