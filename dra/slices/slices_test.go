package slices_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// validate checks the rules of the API server (ValidateResourceSlice, pkg/apis/resource/validation of
// Kubernetes) as far as the driver can break them. The stories of make e2e have the API server itself.
func validate(t testing.TB, r resourceslice.DriverResources, node string) {
	t.Helper()
	check := func(place string, problems []string) {
		t.Helper()
		compare.Empty(t, place, problems)
	}
	pool, ok := r.Pools[node]
	if !ok || len(r.Pools) != 1 || len(pool.Slices) == 0 {
		t.Fatalf("found the pools %v, want %s with a slice", r.Pools, node)
	}
	known := map[string]bool{}
	for i, slice := range pool.Slices {
		if n := len(slice.Devices); n > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures || n == 0 && len(pool.Slices) > 1 {
			t.Errorf("slice %d: found %d devices, want at most 64, and one unless it is the only slice", i, n)
		}
		for _, d := range slice.Devices {
			check(d.Name, validation.IsDNS1123Label(d.Name))
			if known[d.Name] {
				t.Errorf("%s: found twice", d.Name)
			}
			known[d.Name] = true
			if n := len(d.Attributes); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
				t.Errorf("%s: found %d attributes", d.Name, n)
			}
			for name, value := range d.Attributes {
				domain, identifier, qualified := strings.Cut(string(name), "/")
				if !qualified {
					domain, identifier = "example.com", domain
				}
				check(d.Name+" "+string(name), validation.IsDNS1123Subdomain(domain))
				if !cIdentifier.MatchString(identifier) || len(identifier) > resourceapi.DeviceMaxIDLength {
					t.Errorf("%s: found the attribute %s, want a C identifier", d.Name, name)
				}
				if text := value.StringValue; text != nil && (*text == "" || !utf8.ValidString(*text) || len(*text) > resourceapi.DeviceAttributeMaxValueLength) {
					t.Errorf("%s: found %s=%q, want 1 to 64 bytes of UTF-8", d.Name, name, *text)
				}
			}
			for _, taint := range d.Taints {
				check(d.Name+" taint", validation.IsQualifiedName(taint.Key))
				check(d.Name+" taint", validation.IsValidLabelValue(taint.Value))
				if taint.Effect != resourceapi.DeviceTaintEffectNoExecute && taint.Effect != resourceapi.DeviceTaintEffectNoSchedule {
					t.Errorf("%s: found the effect %q", d.Name, taint.Effect)
				}
			}
		}
	}
}

var cIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// FuzzOf checks that the API server takes the slices of any devices, that no device is lost, and that
// an unhealthy device has a taint.
func FuzzOf(f *testing.F) {
	f.Add("3b:00.0", "dfl", "unreadable=errors/errors", "0000:3b:00.0", "8086:09c4:8086:0000", "d8424dc4a4a3c413f89e433683f9040b", "pci0000:3a", 3, 0, uint8(2), uint64(1))
	f.Add("10000:3b:00.0-p7", strings.Repeat("x", 65), "-\xff"+strings.Repeat("ä=", 70), "x", "", "\x00", strings.Repeat("/", 64), 1024, -1, uint8(200), uint64(7))
	f.Fuzz(func(t *testing.T, id, family, reason, address, pciID, afu, root string, numa, port int, count uint8, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		var devices []*inventory.Device
		want := 0
		o := slices.Options{
			Node: "n", Effect: []resourceapi.DeviceTaintEffect{"", resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute}[r.IntN(3)],
			NoTaints: r.IntN(2) == 0, PCI: func(string) (string, string) { return root, root },
		}
		bad := map[string]bool{}
		for i := range int(count)%70 + 1 {
			d := &inventory.Device{
				ID: id, Family: family, Health: inventory.Health(r.IntN(3)), OfferedAs: draname.Driver, Reasons: []string{reason},
				PCIAddress: address, Facts: inventory.Facts{PCIID: pciID, AFUID: afu, InterfaceID: afu, NUMANode: numa, PortID: port, Members: []string{address, root}, Attributes: map[string]string{family: root, root: family, "afuId": pciID}}, Fault: r.IntN(2) == 0,
			}
			for n := range r.IntN(40) {
				d.Attributes[fmt.Sprint("a", n)] = afu
			}
			if i > 0 {
				d.ID = fmt.Sprintf("%02x:%02x.%d", i, i%32, i%8)
			}
			if draname.Device(d.ID) != "" && r.IntN(8) == 0 {
				d.OfferedAs = ""
			}
			if i > 0 && d.ID == id {
				continue
			}
			devices = append(devices, d)
			if d.OfferedAs != "" && draname.Device(d.ID) != "" && !(o.NoTaints && d.Health == inventory.Unhealthy) {
				want++
				bad[draname.Device(d.ID)] = d.Health == inventory.Unhealthy
			}
		}
		got := slices.Of(devices, o)
		validate(t, got, "n")
		found := 0
		for _, s := range got.Pools["n"].Slices {
			for _, d := range s.Devices {
				found++
				if unhealthy, ok := bad[d.Name]; !ok || unhealthy != (len(d.Taints) == 1) || len(d.Taints) > 1 {
					t.Errorf("%s: found the taints %v, published %t, unhealthy %t", d.Name, d.Taints, ok, unhealthy)
				}
			}
		}
		if found != want {
			t.Errorf("found %d devices, want %d", found, want)
		}
	})
}

func device(id string, health inventory.Health, reasons ...string) *inventory.Device {
	return &inventory.Device{ID: id, OfferedAs: draname.Driver, Health: health, Reasons: reasons, Facts: inventory.Facts{NUMANode: -1, PortID: -1}}
}

func TestTaint(t *testing.T) {
	const no, not, execute = "", "NoSchedule", "NoExecute"
	for _, test := range []struct {
		name    string
		device  *inventory.Device
		effect  resourceapi.DeviceTaintEffect
		want    string // effect
		taint   string // value
		without bool   // published if the API server drops taints
	}{
		{"healthy", device("3b:00.0", inventory.Healthy), execute, no, "", true},
		{"degraded", device("3b:00.0", inventory.Degraded, "alarm-max=temp1"), execute, no, "", true},
		{"broken", fault("alarm-crit=temp1", "power-throttled=1"), execute, execute, "alarm-crit.temp1", false},
		{"broken, no eviction", fault("alarm-crit=temp1"), not, not, "alarm-crit.temp1", false},
		{"broken, no effect set", fault("afu-dead"), "", not, "afu-dead", false},
		{"cordoned and broken", fault("afu-dead", "cordoned"), execute, execute, "afu-dead", false},
		{"cordoned and degraded", device("3b:00.0", inventory.Unhealthy, "cordoned", "power-throttled=1"), execute, not, "cordoned", false},
		{"excluded", device("3b:00.0", inventory.Unhealthy, "excluded"), execute, not, "excluded", false},
		{"recovering", device("3b:00.0", inventory.Unhealthy, "recovering=alarm-crit"), execute, not, "recovering.alarm-crit", false},
		{"flapping", device("3b:00.0", inventory.Unhealthy, "flapping"), execute, not, "flapping", false},
		{"moving", device("3b:00.0", inventory.Unhealthy, "moving"), execute, not, "moving", false},
		{"nodes of another holder", device("3b:00.0", inventory.Unhealthy, "node-in-use"), execute, not, "node-in-use", false},
		{"unchecked", device("3b:00.0", inventory.Unhealthy, "unchecked"), execute, not, "unchecked", false},
		{"gone", device("3b:00.0", inventory.Unhealthy, "removed"), execute, execute, "removed", false},
		{"gone in use", device("3b:00.0", inventory.Unhealthy, "removed-in-use"), execute, execute, "removed-in-use", false},
		{"replaced", device("3b:00.0", inventory.Unhealthy, "replaced-in-use"), execute, execute, "replaced-in-use", false},
		{"other nodes", device("3b:00.0", inventory.Unhealthy, "cordoned", "node-changed"), execute, execute, "cordoned", false},
		{"no reason", device("3b:00.0", inventory.Unhealthy), execute, not, "", false},
	} {
		var want []resourceapi.DeviceTaint
		if test.want != no {
			want = []resourceapi.DeviceTaint{{Key: "accelerator.b-com.com/unhealthy", Value: test.taint, Effect: resourceapi.DeviceTaintEffect(test.want)}}
		}
		o := slices.Options{Node: "n", Effect: test.effect}
		got := slices.Of([]*inventory.Device{test.device}, o).Pools["n"].Slices[0].Devices
		if len(got) != 1 {
			t.Fatalf("%s: found %d devices, want 1", test.name, len(got))
		}
		compare.Values(t, test.name, want, got[0].Taints)
		o.NoTaints = true
		compare.Equal(t, test.name+": published without taints", test.without, len(slices.Of([]*inventory.Device{test.device}, o).Pools["n"].Slices[0].Devices) == 1)
	}
}

// The attributes of a family have their own names. Those that the API server does not allow are left out, and so
// are those with the name of another attribute.
func TestFamilyAttributes(t *testing.T) {
	many := map[string]string{}
	for i := range 40 {
		many[fmt.Sprintf("a%02d", i)] = "x"
	}
	member := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("0000:3b:00.%d", i+1))
		}
		return all
	}
	long := strings.Repeat("x", 64)
	for _, test := range []struct {
		name       string
		attributes map[string]string
		members    []string
		want       []string
	}{
		{"of a virtual function", map[string]string{"iommuGroup": "12", "physicalFunction": "0000:3b:00.0", "virtualFunction": "0"}, nil,
			[]string{"family=vfio", "iommuGroup=12", "physicalFunction=0000:3b:00.0", "virtualFunction=0"}},
		{"names of other attributes", map[string]string{"family": "x", "afuId": "x", "pciId": "x", "members": "x", "driver": "x", "degraded": "x", "portId": "x", "interfaceId": "x"}, nil,
			[]string{"family=vfio"}},
		{"names that are not valid", map[string]string{"": "x", "a b": "x", "a.b/c": "x", "1a": "x", long[:33]: "x", long[:32]: "x"}, nil,
			[]string{"family=vfio", long[:32] + "=x"}},
		{"values that are not valid", map[string]string{"a": "", "b": long + "x", "c": "\xff", "d": long}, nil, []string{"d=" + long, "family=vfio"}},
		{"members", nil, member(5), []string{"family=vfio", "members=0000:3b:00.1,0000:3b:00.2,0000:3b:00.3,0000:3b:00.4,0000:3b:00.5"}},
		{"members that do not fit", nil, member(6), []string{"family=vfio"}},
	} {
		d := device("3b:00.0", inventory.Healthy)
		d.Family, d.Attributes, d.Members = "vfio", test.attributes, test.members
		slices := slices.Of([]*inventory.Device{d}, slices.Options{Node: "n"})
		validate(t, slices, "n")
		var got []string
		for name, value := range slices.Pools["n"].Slices[0].Devices[0].Attributes {
			got = append(got, string(name)+"="+*value.StringValue)
		}
		sort.Strings(got)
		compare.Values(t, test.name, test.want, got)
	}
	d := device("3b:00.0", inventory.Healthy)
	d.Family, d.Attributes = "vfio", many
	all := slices.Of([]*inventory.Device{d}, slices.Options{Node: "n"})
	validate(t, all, "n")
	compare.Equal(t, "attributes", 32, len(all.Pools["n"].Slices[0].Devices[0].Attributes))
}

func fault(reasons ...string) *inventory.Device {
	d := device("3b:00.0", inventory.Unhealthy, reasons...)
	d.Fault = true
	return d
}

// A node has slices of 64 devices, in the order of ids, and always one.
func TestChunks(t *testing.T) {
	for count, want := range map[int][]int{0: {0}, 1: {1}, 64: {64}, 65: {64, 1}, 130: {64, 64, 2}} {
		var devices []*inventory.Device
		for i := range count {
			devices = append(devices, device(fmt.Sprintf("%02x:00.0", i), inventory.Healthy))
		}
		var got []int
		for _, s := range slices.Of(devices, slices.Options{Node: "n"}).Pools["n"].Slices {
			got = append(got, len(s.Devices))
		}
		compare.Values(t, fmt.Sprintf("%d devices: sizes of slices", count), want, got)
	}
}

func TestHealth(t *testing.T) {
	unoffered := device("5e:00.0", inventory.Healthy)
	unoffered.OfferedAs = ""
	got := slices.Health([]*inventory.Device{
		device("3b:00.0", inventory.Healthy), device("3b:00.0-p1", inventory.Degraded, "alarm-max=temp1"),
		device("4b:00.0", inventory.Unhealthy, "afu-dead", "pci-gone"), unoffered, device("unit-3", inventory.Healthy),
	}, "n")
	want := []kubeletplugin.DeviceHealth{
		{PoolName: "n", DeviceName: "pci-0000-3b-00-0", Health: "Healthy"},
		{PoolName: "n", DeviceName: "pci-0000-3b-00-0-p1", Health: "Healthy", Message: "alarm-max=temp1"},
		{PoolName: "n", DeviceName: "pci-0000-4b-00-0", Health: "Unhealthy", Message: "afu-dead, pci-gone"},
	}
	compare.Values(t, "health", want, got)
}

// Bitstreams have slices of their own. The test of the chart lets the scheduler's code allocate the devices of the golden
// file.
func TestBitstreams(t *testing.T) {
	const a10, d5005 = "69528db6eb31577a8c3668f9faa081f6", "9346116d8c374c7db4e6b6d8e5a5a1b1"
	card := func(id, region string) *inventory.Device {
		d := device(id, inventory.Healthy)
		d.InterfaceID = region
		return d
	}
	cards := []*inventory.Device{card("3b:00.0", d5005), card("4b:00.0", a10), card("5b:00.0", a10), card("6b:00.0", "")}
	got := slices.Of(cards, slices.Options{Node: "n", Bitstreams: []programming.Stored{
		{InterfaceID: a10, ID: "0123abcd"}, {InterfaceID: a10, ID: "d8424dc4a4a3c413f89e433683f9040b"}, {InterfaceID: d5005, ID: "11111111111111111111111111111111"},
		{InterfaceID: d5005[:16] + a10[16:], ID: "11111111111111111111111111111111"}, // of the same name
	}})
	validate(t, got, "n")
	var devices [][]resourceapi.Device
	for _, slice := range got.Pools["n"].Slices {
		devices = append(devices, slice.Devices)
	}
	compareGolden(t, "testdata/bitstreams.yaml", devices)
}
