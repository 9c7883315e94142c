package offer_test

import (
	"fmt"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/offer/names"
	"b-com.com/accelerator-device-plugin/test/compare"
)

const (
	resource = "b-com.com/accelerator"

	// This name is copied from the example in the documentation of Intel's plugin.
	iface  = "ce48969398f05f33946d560708be108a"
	afu    = "d8424dc4a4a3c413f89e433683f9040b"
	afName = "fpga.intel.com/af-ce4.d84.zkiWk5jwXzOUbVYHCL4QithCTcSko8QT-J5DNoP5BAs"
)

func policy(mode string, rules ...offer.Rule) offer.Naming {
	return offer.Naming{Mode: mode, ResourceName: resource, Namespace: "fpga.intel.com", Rules: rules}
}

func port(edit ...func(*inventory.Device)) *inventory.Device {
	d := &inventory.Device{
		ID: "3b:00.0", Family: "dfl", PCIAddress: "0000:3b:00.0", Facts: inventory.Facts{PCIID: "8086:09c4:8086:0000", NUMANode: 1,
			InterfaceID: iface, AFUID: afu, Nodes: []string{"dfl-port.0"}},
	}
	for _, e := range edit {
		e(d)
	}
	return d
}

func noAFU(d *inventory.Device)   { d.AFUID = "" }
func noIface(d *inventory.Device) { d.InterfaceID = "" }

var unit = &inventory.Device{ID: "7", Family: "pool", Facts: inventory.Facts{NUMANode: -1}}

func TestResourceOf(t *testing.T) {
	const lacksAFU = "the resource name in mode af needs an AFU id, and none is known"
	const lacksInterface = "the resource name in this mode needs an interface id, and none is known"
	for _, tc := range []struct {
		name   string
		policy offer.Naming
		device *inventory.Device
		want   string
		lacks  string
	}{
		{"single", policy(offer.Single), port(), resource, ""},
		{"single, without ids", policy(offer.Single), port(noAFU, noIface), resource, ""},
		{"single, a unit of the pool", policy(offer.Single), unit, "", ""},
		{"pool", policy(offer.Pool), unit, resource, ""},
		{"pool, a port", policy(offer.Pool), port(), "", ""},
		{"af", policy(offer.AF), port(), afName, ""},
		{"af without AFU", policy(offer.AF), port(noAFU), "", lacksAFU},
		{"af without interface", policy(offer.AF), port(noIface), "", lacksInterface},
		{"af, an id that is none", policy(offer.AF), port(func(d *inventory.Device) { d.AFUID = "../../etc/passwd" }), "", lacksAFU},
		{"af, an id in capitals", policy(offer.AF), port(func(d *inventory.Device) { d.AFUID = strings.ToUpper(afu) }), "", lacksAFU},
		{"af, a unit of the pool", policy(offer.AF), unit, "", ""},
		{"region", policy(offer.Region), port(), "fpga.intel.com/region-" + iface, ""},
		{"region without AFU", policy(offer.Region), port(noAFU), "fpga.intel.com/region-" + iface, ""},
		{"region without interface", policy(offer.Region), port(noIface), "", lacksInterface},
		{"regiondevel", policy(offer.RegionDevel), port(), "fpga.intel.com/region-" + iface, ""},
		{"another namespace", offer.Naming{Mode: offer.Region, Namespace: "fpga.example.com"}, port(), "fpga.example.com/region-" + iface, ""},
		{"unknown mode", policy("afu"), port(), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.policy.ResourceOf(tc.device)
			compare.Equal(t, "resource", tc.want, got)
			compare.Equal(t, "lacks", tc.lacks, text(err))
			if got != "" {
				compare.NoError(t, "name for the kubelet", names.Validate(got))
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzAFName checks that the kubelet accepts the name for any two IDs.
func FuzzAFName(f *testing.F) {
	f.Add(iface, afu)
	f.Add("", strings.Repeat("f", 32))
	f.Add(strings.Repeat("0", 32), "ÿ"+afu)
	f.Fuzz(func(t *testing.T, iface, afu string) {
		d := port(func(d *inventory.Device) { d.InterfaceID, d.AFUID = iface, afu })
		for _, mode := range []string{offer.AF, offer.Region} {
			name, err := policy(mode).ResourceOf(d)
			if (name == "") == (err == nil) {
				t.Errorf("mode %s: name %q, error %v", mode, name, err)
			}
			if name != "" && (names.Validate(name) != nil || !policy(mode).Owns(name, d.ID)) {
				t.Errorf("mode %s: %q", mode, name)
			}
		}
	})
}

func TestRules(t *testing.T) {
	rule := func(m offer.Match) offer.Rule { return offer.Rule{Resource: "example.com/nlb", Match: m} }
	for _, tc := range []struct {
		name  string
		match offer.Match
		want  bool
	}{
		{"vendor", offer.Match{PCIVendor: "8086"}, true},
		{"another vendor", offer.Match{PCIVendor: "10ee"}, false},
		{"device", offer.Match{PCIDevice: "09c4"}, true},
		{"another device", offer.Match{PCIDevice: "8086"}, false},
		{"address", offer.Match{PCIAddress: "3b:00.0"}, true},
		{"another address", offer.Match{PCIAddress: "3b:00.1"}, false},
		{"the same address in another domain", offer.Match{PCIAddress: "0001:3b:00.0"}, false},
		{"AFU", offer.Match{AFUID: afu}, true},
		{"another AFU", offer.Match{AFUID: iface}, false},
		{"interface", offer.Match{InterfaceID: iface}, true},
		{"another interface", offer.Match{InterfaceID: afu}, false},
		{"family", offer.Match{Family: "dfl"}, true},
		{"another family", offer.Match{Family: "opae"}, false},
		{"all", offer.Match{PCIVendor: "8086", PCIDevice: "09c4", PCIAddress: "3b:00.0", AFUID: afu, InterfaceID: iface, Family: "dfl"}, true},
		{"all but one", offer.Match{PCIVendor: "8086", PCIDevice: "09c5", PCIAddress: "3b:00.0", AFUID: afu, InterfaceID: iface, Family: "dfl"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, mode := range offer.Modes() {
				p := policy(mode, rule(tc.match))
				want, _ := policy(mode).ResourceOf(port())
				anyAFU := mode == offer.Region || mode == offer.RegionDevel
				if tc.want && mode != offer.Pool && !(anyAFU && tc.match.AFUID != "") {
					want = "example.com/nlb"
				}
				if got, _ := p.ResourceOf(port()); got != want {
					t.Errorf("mode %s: resource %q, want %q", mode, got, want)
				}
			}
		})
	}
}

// A virtual function's attributes include its physical function and its index.
func TestRulesOfFunctions(t *testing.T) {
	virtual := &inventory.Device{
		ID: "0001:3b:00.5", Family: "vfio", PCIAddress: "0001:3b:00.5", Facts: inventory.Facts{PCIID: "8086:bccf:8086:17d4", OnlyByRule: true,
			Attributes: map[string]string{inventory.AttributePhysicalFunction: "0001:3b:00.0", inventory.AttributeVirtualFunction: "0"}},
	}
	physical := &inventory.Device{ID: "3b:00.0", Family: "vfio", PCIAddress: "0000:3b:00.0", Facts: inventory.Facts{PCIID: "8086:bcce", OnlyByRule: true}}
	inDomain0 := &inventory.Device{
		ID: "3b:00.5", Family: "vfio", PCIAddress: "0000:3b:00.5", Facts: inventory.Facts{OnlyByRule: true,
			Attributes: map[string]string{inventory.AttributePhysicalFunction: "0000:3b:00.0", inventory.AttributeVirtualFunction: "10"}},
	}
	for _, tc := range []struct {
		name   string
		match  offer.Match
		device *inventory.Device
		want   bool
	}{
		{"subsystem", offer.Match{Subsystem: "8086:17d4"}, virtual, true},
		{"another subsystem", offer.Match{Subsystem: "8086:1771"}, virtual, false},
		{"vendor and device are no subsystem", offer.Match{Subsystem: "8086:bccf"}, virtual, false},
		{"subsystem is not known", offer.Match{Subsystem: "8086:17d4"}, physical, false},
		{"ids are not known", offer.Match{Subsystem: "8086:17d4"}, inDomain0, false},
		{"physical function", offer.Match{PhysicalFunction: "0001:3b:00.0"}, virtual, true},
		{"physical function in domain 0", offer.Match{PhysicalFunction: "3b:00.0"}, inDomain0, true},
		{"another physical function", offer.Match{PhysicalFunction: "3b:00.0"}, virtual, false},
		{"the physical function itself", offer.Match{PhysicalFunction: "3b:00.0"}, physical, false},
		{"index", offer.Match{VirtualFunction: "0"}, virtual, true},
		{"another index", offer.Match{VirtualFunction: "1"}, inDomain0, false},
		{"index of a physical function", offer.Match{VirtualFunction: "0"}, physical, false},
		{"all", offer.Match{PCIVendor: "8086", PCIDevice: "bccf", Subsystem: "8086:17d4", PhysicalFunction: "0001:3b:00.0", VirtualFunction: "0", Family: "vfio"}, virtual, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, mode := range offer.Modes() {
				want := ""
				if tc.want && mode != offer.Pool {
					want = "example.com/vf"
				}
				// If a device is advertised only by rule, it isn't an error that there's no rule for it.
				if got, err := policy(mode, offer.Rule{Resource: "example.com/vf", Match: tc.match}).ResourceOf(tc.device); got != want || err != nil {
					t.Errorf("mode %s: resource %q, %v, want %q", mode, got, err, want)
				}
			}
		})
	}
}

// A card with an AMD shell is named after its shell in every mode.
func TestShell(t *testing.T) {
	card := func(edit ...func(*inventory.Device)) *inventory.Device {
		return port(append([]func(*inventory.Device){func(d *inventory.Device) {
			d.ID, d.PCIAddress, d.Family, d.NamedByShell = "3b:00.1", "0000:3b:00.1", "xrt", true
			d.Attributes = map[string]string{"vbnv": "xilinx_u50_gen3x16_xdma_base_5", "timestamp": "0"}
		}}, edit...)...)
	}
	unknown := func(d *inventory.Device) { d.Attributes = nil }
	const name = "amd.com/xilinx_u50_gen3x16_xdma_base_5-0"
	rule := func(vbnv string) offer.Rule {
		return offer.Rule{Resource: "example.com/u50", Match: offer.Match{VBNV: vbnv}}
	}
	for _, mode := range offer.Modes() {
		for _, tc := range []struct {
			name   string
			rules  []offer.Rule
			device *inventory.Device
			want   string
			lacks  bool
		}{
			{"without rules", nil, card(), name, false},
			{"a rule", []offer.Rule{rule("xilinx_u50_gen3x16_xdma_base_5")}, card(), "example.com/u50", false},
			{"a rule for another shell", []offer.Rule{rule("xilinx_u50_gen3x16_xdma_base_4")}, card(), name, false},
			{"the shell is not known", []offer.Rule{rule("xilinx_u50_gen3x16_xdma_base_5")}, card(unknown), "", true},
			{"the shell is not known, a rule for the card", []offer.Rule{{Resource: "example.com/u50", Match: offer.Match{Family: "xrt"}}}, card(unknown), "example.com/u50", false},
			{"a name that is too long", nil, card(func(d *inventory.Device) { d.Attributes["vbnv"] = strings.Repeat("x", 63) }), "", true},
		} {
			p := policy(mode, tc.rules...)
			if mode == offer.Pool {
				tc.want, tc.lacks = "", false
			}
			if got, err := p.ResourceOf(tc.device); got != tc.want || (err != nil) != tc.lacks {
				t.Errorf("mode %s, %s: resource %q, %v, want %q", mode, tc.name, got, err, tc.want)
			}
		}
	}
}

func TestRuleText(t *testing.T) {
	r := offer.Rule{Resource: "example.com/vf", Match: offer.Match{
		PCIVendor: "8086", PCIDevice: "bccf", Subsystem: "8086:17d4", PCIAddress: "3b:00.5", PhysicalFunction: "3b:00.0", VirtualFunction: "0",
		AFUID: afu, InterfaceID: iface, VBNV: "xilinx_u50", Family: "vfio",
	}}
	const want = "example.com/vf for pciVendor=8086 pciDevice=bccf subsystem=8086:17d4 pciAddress=3b:00.5 physicalFunction=3b:00.0 virtualFunction=0 " +
		"afuId=" + afu + " interfaceId=" + iface + " vbnv=xilinx_u50 family=vfio"
	compare.Equal(t, "rule", want, r.String())
}

func TestFirstMatchingRule(t *testing.T) {
	p := policy(offer.AF,
		offer.Rule{Resource: "example.com/other", Match: offer.Match{AFUID: iface}},
		offer.Rule{Resource: "example.com/first", Match: offer.Match{AFUID: afu}},
		offer.Rule{Resource: "example.com/second", Match: offer.Match{Family: "dfl"}})
	if got, _ := p.ResourceOf(port()); got != "example.com/first" || p.RuleOf(port()) != 1 {
		t.Errorf("resource %q by rule %d, want example.com/first by rule 1", got, p.RuleOf(port()))
	}
	// A rule that doesn't specify an AFU applies even if the card's AFU is unknown.
	if got, err := p.ResourceOf(port(noAFU)); got != "example.com/second" || err != nil {
		t.Errorf("without AFU: resource %q, %v, want example.com/second", got, err)
	}
}

func TestOwns(t *testing.T) {
	p := policy(offer.Single, offer.Rule{Resource: "example.com/nlb"})
	for _, tc := range []struct {
		name, resource, id string
		want               bool
	}{
		{"of this plugin", resource, "3b:00.0", true},
		{"of this plugin, a unit of the pool", resource, "7", true},
		{"a rule's", "example.com/nlb", "3b:00.0", true},
		{"of another mode", afName, "3b:00.0-p1", true},
		{"of another mode, region", "fpga.intel.com/region-" + iface, "0001:3b:00.0", true},
		{"Intel's plugin on the same node", afName, "dfl-port.0", false},
		{"Intel's plugin on the same node, region", "fpga.intel.com/region-" + iface, "region0", false},
		{"another name in that namespace", "fpga.intel.com/afu", "3b:00.0", false},
		{"the name of a shell", "amd.com/xilinx_u50_gen3x16_xdma_base_5-0", "3b:00.1", true},
		{"Xilinx' plugin on the same node", "amd.com/xilinx_u50_gen3x16_xdma_base_5-0", "0000:3b:00.1", false},
		{"another name of that domain", "amd.com/gpu", "3b:00.1", false},
		{"another namespace", "qat.intel.com/af-x", "3b:00.0", false},
		{"another plugin", "example.com/gpu", "3b:00.0", false},
		{"nothing", "", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			compare.Equal(t, fmt.Sprintf("owns %q as %q", tc.id, tc.resource), tc.want, p.Owns(tc.resource, tc.id))
		})
	}
}

func TestResources(t *testing.T) {
	as := func(name, id string, edit ...func(*inventory.Device)) *inventory.Device {
		return port(append(edit, func(d *inventory.Device) { d.OfferedAs, d.ID = name, id })...)
	}
	sick := func(d *inventory.Device) {
		d.Health, d.Reasons, d.ParentNodes = inventory.Unhealthy, []string{"afu-dead"}, []string{"dfl-fme.0"}
	}
	all := []*inventory.Device{
		as("a.com/x", "3b:00.0"), as("b.com/y", "3b:00.0-p1", sick), as("", "4c:00.0"), as("b.com/y", "5e:00.0"),
		as("accelerator.b-com.com", "5f:00.0", sick), // held by a claim
	}
	want := []offer.Resource{
		{Name: "a.com/x", Devices: []*inventory.Device{all[0]}},
		{Name: "b.com/y", Devices: []*inventory.Device{all[1], all[3]}},
	}
	got := offer.Resources(all)
	compare.Values(t, "resources", want, got)
	if got := offer.Resources(nil); len(got) != 0 {
		t.Errorf("resources without devices: %v", got)
	}
}

// Once a rule has been added, its name stays ours until the daemon exits.
func TestOwnership(t *testing.T) {
	o := offer.NewOwnership(policy(offer.Single, offer.Rule{Resource: "example.com/first"}))
	o.Add([]offer.Rule{{Resource: "example.com/second"}})
	o.Add(nil)
	for name, want := range map[string]bool{resource: true, "example.com/first": true, "example.com/second": true, "example.com/third": false} {
		compare.Equal(t, fmt.Sprintf("owns %s", name), want, o.Owns(name, "3b:00.0"))
	}
}
