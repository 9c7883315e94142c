package metrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// State has the functions that gauges are read from at the time of a scrape. They must be safe
// for concurrent use and must not block.
type State struct {
	// Mode returns the present mode.
	Mode func() string
	// Config returns the hash of the files of settings in force; "": there are none.
	Config func() string
	// Devices returns the newest list of devices and its version, which is 0 before the first
	// list.
	Devices func() (version uint64, devices []Device)
	// Resources returns the resources that are offered to the kubelet.
	Resources func() []Resource
}

// Device is a device as it is shown.
type Device struct {
	ID        string
	PCI       string // DDDD:BB:DD.F; "": a unit that is in no slot
	PCIID     string // VVVV:DDDD:SSSS:SSSS, or ""
	Family    string
	Resource  string   // that it is offered as; "": none
	Health    string   // healthy, degraded or unhealthy
	Reasons   []string // NAME or NAME=VALUE
	Tombstone string   // the first of the reasons with [inventory.Reason.Tombstone]; "": none
	AFU       string
	Interface string
	NUMANode  int // -1: none
}

// Resource is the state of one resource.
type Resource struct {
	Name    string
	Streams int  // that are open
	Ready   bool // registered with a stream open, or without devices
}

// now is a gauge of the state. It has no value between scrapes.
type now struct{ *prometheus.Desc }

// Describe implements [prometheus.Collector].
func (n now) Describe(to chan<- *prometheus.Desc) { to <- n.Desc }

// Collect implements [prometheus.Collector].
func (now) Collect(chan<- prometheus.Metric) {}

// collectState sends the gauges of the state.
func (m *Metrics) collectState(s *State, to chan<- prometheus.Metric) {
	show := func(gauge now, value float64, labels ...string) {
		for i, l := range labels {
			labels[i] = strings.ToValidUTF8(l, "\ufffd")
		}
		to <- prometheus.MustNewConstMetric(gauge.Desc, prometheus.GaugeValue, value, labels...)
	}
	show(m.modeInfo, 1, s.Mode())
	show(m.configInfo, 1, s.Config())
	// A resource without devices is shown with 0 until it is retired.
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
		if d.PCI != "" { // units that are in no slot are all the same, and are only counted
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
