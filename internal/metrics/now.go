package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// now collects the gauges of the present state at the time of a scrape.
type now struct {
	m    *Metrics
	desc map[string]*prometheus.Desc // by name; made once, because each is checked and hashed
}

func newNow(m *Metrics) now {
	n := now{m: m, desc: make(map[string]*prometheus.Desc)}
	for _, d := range []Declaration{
		modeInfo, devices, deviceHealth, deviceReason, deviceInfo, tombstones,
		snapshotVersion, holdersKnown, streams, resourceReady, cdiOK,
	} {
		n.desc[d.Name] = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	}
	return n
}

// Describe implements [prometheus.Collector].
func (n now) Describe(to chan<- *prometheus.Desc) {
	for _, d := range n.desc {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (n now) Collect(to chan<- prometheus.Metric) {
	show := func(d Declaration, value float64, labels ...string) {
		metric, err := prometheus.NewConstMetric(n.desc[d.Name], prometheus.GaugeValue, value, labels...)
		if err != nil { // a label that is not UTF-8: the metric is left out, and the rest of the page is served
			metric = prometheus.NewInvalidMetric(n.desc[d.Name], err)
		}
		to <- metric
	}
	if yes, given := n.m.holders.get(); given {
		show(holdersKnown, number(yes))
	}
	if yes, given := n.m.cdi.get(); given {
		show(cdiOK, number(yes))
	}
	s := n.m.state.Load()
	if s == nil {
		return
	}
	show(modeInfo, 1, s.Mode())
	resources := s.Resources()
	for _, r := range resources {
		show(streams, float64(r.Streams), r.Name)
		show(resourceReady, number(r.Ready), r.Name)
	}
	version, all := s.Devices()
	show(snapshotVersion, float64(version))
	for i := range all {
		all[i].show(show)
	}
	showTotals(all, resources, show)
}

type show func(d Declaration, value float64, labels ...string)

// show shows one device. Units that are in no PCI slot are all the same, and are only counted.
func (d *Device) show(show show) {
	id, resource := clean(d.ID), clean(d.Resource)
	if d.PCI != "" {
		for _, h := range healths {
			show(deviceHealth, number(d.Health == h), id, d.PCI, d.Family, resource, h)
		}
		numa := ""
		if d.NUMANode >= 0 {
			numa = strconv.Itoa(d.NUMANode)
		}
		show(deviceInfo, 1, id, d.PCI, d.PCIID, d.Family, resource, d.AFU, d.Interface, numa)
	}
	said := make(map[string]bool, len(d.Reasons))
	for _, r := range d.Reasons {
		if name := nameOf(r); !said[name] {
			said[name] = true
			show(deviceReason, 1, id, resource, name)
		}
	}
}

// showTotals counts the devices. A resource without devices is shown with 0 until it is
// retired.
func showTotals(all []Device, resources []Resource, show show) {
	type pair struct{ resource, what string }
	byHealth, byTombstone := make(map[pair]int), make(map[pair]int)
	names := make(map[string]bool)
	for _, r := range resources {
		names[r.Name] = true
	}
	for i := range all {
		resource := clean(all[i].Resource)
		names[resource] = true
		byHealth[pair{resource, all[i].Health}]++
		if all[i].Tombstone != "" {
			byTombstone[pair{resource, all[i].Tombstone}]++
		}
	}
	for name := range names {
		for _, h := range healths {
			show(devices, float64(byHealth[pair{name, h}]), name, h)
		}
	}
	for p, n := range byTombstone {
		show(tombstones, float64(n), p.resource, p.what)
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
