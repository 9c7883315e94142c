package daemon

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/daemon/sensors"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
)

// stateOf returns the functions that provide the gauges' values. If showHolders is true, one of these functions returns
// the devices' holders.
func stateOf(mode, config func() string, inv *inventory.Inventory, api API, cards func() []metrics.Card, sensed func() map[string]sensors.Card, showHolders bool) metrics.State {
	s := metrics.State{
		Mode: mode, Config: config,
		Devices: func() (uint64, []metrics.Device) {
			snapshot, _ := inv.Latest()
			all := make([]metrics.Device, len(snapshot.Devices))
			for i, d := range snapshot.Devices {
				all[i] = measured(d)
			}
			return snapshot.Version, all
		},
		Resources: api.Resources, Cards: cards,
		Sensors: func() []metrics.CardSensors {
			var all []metrics.CardSensors
			for address, c := range sensed() {
				all = append(all, metrics.CardSensors{
					Card: strings.TrimPrefix(address, "0000:"), Readings: slices.Concat(c.Summary, c.All), Failures: c.Failures,
					Link: c.Link, Correctable: c.Correctable,
				})
			}
			return all
		},
		Versions: func() []metrics.CardVersions {
			snapshot, _ := inv.Latest()
			return versionsOf(snapshot.Devices, sensed())
		},
	}
	if showHolders {
		s.Holders = func() []metrics.Holder { return holdersOf(inv.Holdings().Of) }
	}
	return s
}

// versionsOf returns the versions of the devices' cards, with one entry per card.
func versionsOf(devices []*inventory.Device, sensed map[string]sensors.Card) []metrics.CardVersions {
	cards := make(map[string]metrics.CardVersions)
	for _, d := range devices {
		address := sensors.CardOf(d)
		if address == "" {
			continue
		}
		v := cards[address]
		v.BitstreamID = cmp.Or(v.BitstreamID, d.Attributes[inventory.AttributeBitstreamID])
		v.Shell = cmp.Or(v.Shell, d.Attributes[inventory.AttributeVBNV])
		v.Card, v.Firmware = strings.TrimPrefix(address, "0000:"), sensed[address].Firmware
		cards[address] = v
	}
	return slices.Collect(maps.Values(cards))
}

// holdersOf returns the containers that hold devices, sorted by device.
func holdersOf(holdings map[string][]inventory.Holding) []metrics.Holder {
	var all []metrics.Holder
	for _, id := range slices.Sorted(maps.Keys(holdings)) {
		for _, holding := range holdings[id] {
			if holding.Foreign {
				continue
			}
			for _, name := range holding.Holders {
				namespace, rest, _ := strings.Cut(name, "/")
				pod, container, _ := strings.Cut(rest, "/")
				all = append(all, metrics.Holder{
					Device: id, Resource: holding.As, Namespace: namespace, Pod: pod, Container: container,
				})
			}
		}
	}
	return all
}

// measured converts a device to the type used for metrics.
func measured(d *inventory.Device) metrics.Device {
	m := metrics.Device{
		ID: d.ID, PCI: d.PCIAddress, PCIID: d.PCIID, Family: d.Family, Resource: d.OfferedAs, NUMANode: d.NUMANode,
		Health: d.Health.String(), Reasons: d.Reasons, AFU: d.AFUID, Interface: d.InterfaceID,
	}
	if i := slices.IndexFunc(d.Reasons, func(r string) bool { return inventory.ReasonOf(r).Tombstone }); i >= 0 {
		m.Tombstone = d.Reasons[i]
	}
	return m
}
