package daemon

import (
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/daemon/sensors"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	leaf "b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// Each physical card's versions appear once, no matter which of its devices knows them.
func TestVersions(t *testing.T) {
	device := func(address string, attributes ...string) *inventory.Device {
		d := &inventory.Device{PCIAddress: address, Facts: inventory.Facts{Attributes: map[string]string{}}}
		for pair := range slices.Chunk(attributes, 2) {
			d.Attributes[pair[0]] = pair[1]
		}
		return d
	}
	const card, other = "0000:3b:00.0", "0001:5e:00.0"
	firmware := leaf.Firmware{BMC: "1.4.0"}
	got := versionsOf([]*inventory.Device{
		device("0000:3b:00.5", "physicalFunction", card, "bitstreamId", "0x12"), device(card), device(""),
		device(other, "vbnv", "xilinx_u50", "bitstreamId", ""),
	}, map[string]sensors.Card{card: {Firmware: firmware}, "0000:af:00.0": {Firmware: firmware}})
	slices.SortFunc(got, func(a, b metrics.CardVersions) int { return strings.Compare(a.Card, b.Card) })
	compare.Values(t, "versions", []metrics.CardVersions{
		{Card: "0001:5e:00.0", Shell: "xilinx_u50"}, {Card: "3b:00.0", BitstreamID: "0x12", Firmware: firmware},
	}, got)
}
