package metrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// State holds the functions that return the gauges' values. They are called at each scrape, so they must be safe for
// concurrent use and must not block.
type State struct {
	// Mode returns the current mode.
	Mode func() string
	// Config returns the hash of the settings files in effect, or "" if there are none.
	Config func() string
	// Devices returns the newest list of devices and its version, which is 0 until there is a list.
	Devices func() (version uint64, devices []Device)
	// Holders returns the containers that hold devices, sorted. If Holders is nil, the page omits the metrics about
	// holders.
	Holders func() []Holder
	// Resources returns the resources that are advertised to the kubelet.
	Resources func() []Resource
	// Cards returns the cards in the ledger. If Cards is nil, the page omits the metrics about the ledger.
	Cards func() []Card
	// Sensors returns the cards' sensor readings. If Sensors is nil, the page omits the metrics about sensors.
	Sensors func() []CardSensors
	// Versions returns the cards' versions. If Versions is nil, the page omits the metrics about versions.
	Versions func() []CardVersions
}

// CardSensors contains a card's sensor readings, PCIe link and correctable errors.
type CardSensors struct {
	Card     string            // see [Card]
	Readings []sensors.Reading // the summary and all sensors
	Failures int               // since the daemon started

	Link        sysfs.Link
	Correctable map[string]uint64 // PCIe errors by type
}

// CardVersions contains a card's versions, or "" for those that aren't known.
type CardVersions struct {
	Card        string // see [Card]
	BitstreamID string // ID of the card's static region
	sensors.Firmware
	Shell string // for a card that uses XRT
}

// Card is a card in the ledger. The counts cover the time since the daemon started.
type Card struct {
	Address                 string
	HealthChanges, Removals int
	Missing                 bool
}

// Device is a device as it appears in the metrics.
type Device struct {
	ID        string
	PCI       string // DDDD:BB:DD.F; "" for a unit without a slot
	PCIID     string // VVVV:DDDD:SSSS:SSSS, or ""
	Family    string
	Resource  string   // "" if it isn't advertised
	Health    string   // healthy, degraded or unhealthy
	Reasons   []string // NAME or NAME=VALUE
	Tombstone string   // the first reason for which [inventory.Reason.Tombstone] is true; "" if there is none
	AFU       string
	Interface string
	NUMANode  int // -1: none
}

// Holder is a container that holds a device under a resource name.
type Holder struct{ Device, Resource, Namespace, Pod, Container string }

// maxHolders limits the number of holder series, because the kubelet may report any number of holders.
const maxHolders = 1024

// Resource is the state of one resource.
type Resource struct {
	Name    string
	Streams int  // number of open streams
	Ready   bool // registered and has an open stream, or has no devices
}

// now is a gauge whose value is computed from the state at each scrape.
type now struct{ *prometheus.Desc }

// Describe implements [prometheus.Collector].
func (n now) Describe(to chan<- *prometheus.Desc) { to <- n.Desc }

// Collect implements [prometheus.Collector].
func (now) Collect(chan<- prometheus.Metric) {}

// collectState sends the state gauges.
func (m *Metrics) collectState(s *State, to chan<- prometheus.Metric) {
	show := func(gauge now, value float64, labels ...string) {
		for i, l := range labels {
			labels[i] = strings.ToValidUTF8(l, "\ufffd")
		}
		to <- prometheus.MustNewConstMetric(gauge.Desc, prometheus.GaugeValue, value, labels...)
	}
	show(m.modeInfo, 1, s.Mode())
	show(m.configInfo, 1, s.Config())
	// Until a resource is retired, it is shown even if it doesn't have any devices.
	byHealth, byTombstone := make(map[string]map[string]int), make(map[[2]string]int)
	for _, r := range s.Resources() {
		show(m.streams, float64(r.Streams), r.Name)
		show(m.resourceReady, number(r.Ready), r.Name)
		byHealth[r.Name] = make(map[string]int)
	}
	version, devices := s.Devices()
	show(m.snapshotVersion, float64(version))
	for i := range devices {
		d := &devices[i]
		resource := clean(d.Resource)
		if byHealth[resource] == nil {
			byHealth[resource] = make(map[string]int)
		}
		byHealth[resource][d.Health]++
		if d.Tombstone != "" {
			byTombstone[[2]string{resource, d.Tombstone}]++
		}
		if d.PCI != "" { // units without a slot are interchangeable, so just count them
			for _, h := range healths {
				show(m.deviceHealth, number(d.Health == h), d.ID, d.PCI, d.Family, resource, h)
			}
			numa := ""
			if d.NUMANode >= 0 {
				numa = strconv.Itoa(d.NUMANode)
			}
			show(m.deviceInfo, 1, d.ID, d.PCI, d.PCIID, d.Family, resource, d.AFU, d.Interface, numa)
		}
		shown := make(map[string]bool, len(d.Reasons))
		for _, r := range d.Reasons {
			if name := nameOf(r); !shown[name] {
				shown[name] = true
				show(m.deviceReason, 1, d.ID, resource, name)
			}
		}
	}
	if s.Cards != nil {
		for _, c := range s.Cards() {
			show(m.cardMissing, number(c.Missing), c.Address)
			for counter, n := range map[now]int{m.cardHealthChanges: c.HealthChanges, m.cardRemovals: c.Removals} {
				to <- prometheus.MustNewConstMetric(counter.Desc, prometheus.CounterValue, float64(n), c.Address)
			}
		}
	}
	if s.Sensors != nil {
		for _, c := range s.Sensors() {
			to <- prometheus.MustNewConstMetric(m.sensorFailures.Desc, prometheus.CounterValue, float64(c.Failures), c.Card)
			for kind, n := range c.Correctable {
				to <- prometheus.MustNewConstMetric(m.correctable.Desc, prometheus.CounterValue, float64(n), c.Card, kind)
			}
			if l := c.Link; l != (sysfs.Link{}) {
				const tenth = 1e8 // of a GT/s
				show(m.linkSpeed, float64(l.Speed)*tenth, c.Card)
				show(m.linkMaxSpeed, float64(l.MaxSpeed)*tenth, c.Card)
				show(m.linkWidth, float64(l.Width), c.Card)
				show(m.linkMaxWidth, float64(l.MaxWidth), c.Card)
			}
			for _, r := range c.Readings {
				gauges := m.sensors[r.Kind]
				show(gauges.value, r.Value, c.Card, r.Chip, r.Name)
				if most := r.Max; most != 0 && (r.Chip != "" || r.Name == sensors.Hottest) {
					show(gauges.most, most, c.Card, r.Chip, r.Name)
				}
				if r.Crit != 0 && (r.Chip != "" || r.Name == sensors.Hottest && r.Max == 0) {
					show(gauges.crit, r.Crit, c.Card, r.Chip, r.Name)
				}
			}
		}
	}
	if s.Versions != nil {
		for _, v := range s.Versions() {
			if v != (CardVersions{Card: v.Card}) {
				show(m.cardInfo, 1, v.Card, v.BitstreamID, v.BMC, v.Build, v.Image, v.Shell)
			}
		}
	}
	if s.Holders != nil {
		shown := make(map[Holder]bool)
		omitted := 0
		for _, h := range s.Holders() {
			h = Holder{clean(h.Device), clean(h.Resource), clean(h.Namespace), clean(h.Pod), clean(h.Container)}
			switch {
			case shown[h]:
			case len(shown) == maxHolders:
				omitted++
			default:
				shown[h] = true
				show(m.holder, 1, h.Device, h.Resource, h.Namespace, h.Pod, h.Container)
			}
		}
		show(m.holdersOmitted, float64(omitted))
	}
	for resource, devices := range byHealth {
		for _, h := range healths {
			show(m.devices, float64(devices[h]), resource, h)
		}
	}
	for of, n := range byTombstone {
		show(m.tombstones, float64(n), of[0], of[1])
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
