package chart_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// classes are the DeviceClasses of the chart.
type classes []*resourcev1.DeviceClass

func (c classes) List() ([]*resourcev1.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if i := slices.IndexFunc(c, func(class *resourcev1.DeviceClass) bool { return class.Name == name }); i >= 0 {
		return c[i], nil
	}
	return nil, fmt.Errorf("no class %s", name)
}

// The scheduler's code allocates the claim in the documents. It gives the claim a card into which the bitstream can be
// loaded. Several claims can have the same bitstream, but none gets a bitstream instead of a card, or a card on a node
// without the bitstream.
func TestBitstreams(t *testing.T) {
	ofChart := classes(every[*resourcev1.DeviceClass](objects(t, plugin.rendered(t, read(t, plugin.data+"/dra-programming.yaml")))))
	block := regexp.MustCompile("(?s)\n```yaml\n([^`]*bitstream\\." + driver + "[^`]*)```").FindStringSubmatch(read(t, "../../docs/dra.md"))
	if block == nil {
		t.Fatal("docs/dra.md: found no claim for a bitstream")
	}
	const afu = "d8424dc4a4a3c413f89e433683f9040b"
	claim := func(text string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", UID: types.UID("uid")}}
		must.Succeed(t, yaml.UnmarshalStrict([]byte(text), c))
		for i := range c.Spec.Devices.Requests { // as the API server sets them
			c.Spec.Devices.Requests[i].Exactly.AllocationMode, c.Spec.Devices.Requests[i].Exactly.Count = resourcev1.DeviceAllocationModeExactCount, 1
		}
		return c
	}
	loads, absent := claim(block[1]), claim(strings.ReplaceAll(block[1], afu, "00000000000000000000000000000001"))
	card := claim(`spec: {devices: {requests: [{name: card, exactly: {deviceClassName: ` + driver + `}}]}}`)

	var devices [][]resourcev1.Device // of each slice
	must.Succeed(t, yaml.UnmarshalStrict([]byte(read(t, "../../dra/slices/testdata/bitstreams.yaml")), &devices))
	node := "n"
	var published []*resourcev1.ResourceSlice
	for _, d := range devices {
		published = append(published, &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Devices: d, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: int64(len(devices))},
		}})
	}
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	var got [][]string
	for _, c := range []*resourcev1.ResourceClaim{loads, absent, loads, loads, card, card, card} {
		allocator, err := structured.NewAllocator(t.Context(), structured.Features{ConsumableCapacity: true, DeviceTaints: true}, state, ofChart, published,
			dracel.NewCache(10, dracel.Features{EnableConsumableCapacity: true}))
		must.Succeed(t, err)
		results := must.Value(allocator.Allocate(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, []*resourcev1.ResourceClaim{c}))(t)
		var names []string
		for _, result := range results {
			for _, d := range result.Devices.Results {
				names = append(names, d.Device)
				id := structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
				if d.ShareID != nil {
					state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, d.ShareID))
				} else {
					state.AllocatedDevices.Insert(id)
				}
			}
		}
		got = append(got, names)
	}
	const bitstream = "afu-" + afu + "-69528db6eb31577a"
	want := [][]string{{"pci-0000-4b-00-0", bitstream}, nil, {"pci-0000-5b-00-0", bitstream}, nil, {"pci-0000-3b-00-0"}, {"pci-0000-6b-00-0"}, nil}
	compare.Values(t, "devices of the claims", want, got)
}
