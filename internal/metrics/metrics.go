package metrics

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics counts events and serves the page of metrics. Create it with [New].
type Metrics struct {
	registry   *prometheus.Registry
	collectors []prometheus.Collector // in the order of the documentation
	state      atomic.Pointer[State]

	// Of the state, which [Metrics.Collect] reads at the time of a scrape.
	modeInfo, configInfo, devices, deviceHealth, deviceReason, deviceInfo, tombstones now
	streams, resourceReady, snapshotVersion                                           now

	transitions     *prometheus.CounterVec
	identityChanges *prometheus.CounterVec
	reasons         few

	hintToSend       prometheus.Histogram
	listsSent        *prometheus.CounterVec
	streamsOpened    *prometheus.CounterVec
	registrations    *prometheus.CounterVec
	kubeletRestarts  *prometheus.CounterVec
	allocations      *prometheus.CounterVec
	allocatedDevices *prometheus.CounterVec
	cdi              *prometheus.GaugeVec

	hints           *prometheus.CounterVec
	hintSources     few
	scans           *prometheus.CounterVec
	scanDuration    prometheus.Histogram
	listings        *prometheus.CounterVec
	cardsUnreadable prometheus.Gauge
	holders         *prometheus.GaugeVec

	uevents          *prometheus.CounterVec
	subsystems       few
	ueventsIgnored   prometheus.Counter
	ueventsForged    prometheus.Counter
	ueventsMalformed prometheus.Counter
	ueventOverflows  prometheus.Counter
	inotifyEvents    *prometheus.CounterVec
	inotifyOverflows *prometheus.CounterVec
	sourceUp         *prometheus.GaugeVec

	apiEvents     *prometheus.CounterVec
	apiFailures   prometheus.Counter
	configReloads *prometheus.CounterVec
	logDropped    *prometheus.CounterVec
}

// New returns metrics with a registry of their own. Every metric is declared here, in the order
// of docs/metrics.md, whose table is generated from the descriptors.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		reasons:  few{most: mostReasons}, hintSources: few{most: mostHintSources},
		subsystems: few{most: mostSubsystems},
	}
	m.gauges("accelerator_build_info", "Always 1; the labels say which version runs.", "version", "goversion").
		WithLabelValues(version, runtime.Version()).Set(1)
	m.modeInfo = m.now("accelerator_mode_info", "Always 1; the label says which mode runs.", "mode")
	m.configInfo = m.now("accelerator_config_info",
		"Always 1; the label is the hash of the files of settings in force: "+
			"the first 12 hex digits of the SHA-256 of the file of --config followed by that of --overrides; \"\": no files.",
		"hash")

	m.devices = m.now("accelerator_devices",
		"Devices by the resource that they are offered as, and by health; resource \"\": offered as nothing.",
		"resource", "health")
	m.deviceHealth = m.now("accelerator_device_health",
		"1 for the health that a device has, 0 for the two others.", "device", "pci", "family", "resource", "health")
	m.deviceReason = m.now("accelerator_device_reason",
		"1 for each reason why a device is not healthy; a reason that is over has no series.", "device", "resource", "reason")
	m.deviceInfo = m.now("accelerator_device_info",
		"Always 1; the labels say what a device is.",
		"device", "pci", "pci_id", "family", "resource", "afu", "interface", "numa_node")
	m.tombstones = m.now("accelerator_tombstones",
		"Devices that left or move, and stay listed, unhealthy, because a container holds or may hold them.",
		"resource", "reason")
	m.transitions = m.counters("accelerator_device_transitions_total",
		"Changes of a device's health; absent is a device that is not there. "+
			"The reason is the worst one after a change for the worse, else \"\".", "old", "new", "reason")
	m.identityChanges = m.counters("accelerator_device_identity_changes_total",
		"Devices that stayed and became something else, by what changed.", "attribute")

	m.hintToSend = m.histogram("accelerator_hint_to_send_seconds",
		"From the hint to the list that the kubelet's stream was given, once for each list that a hint led to.",
		50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 10e-3, 20e-3, 50e-3,
		100e-3, 250e-3, 1)
	m.listsSent = m.counters("accelerator_lists_sent_total",
		"Lists handed to the kubelet's streams.", "resource")
	m.streams = m.now("accelerator_streams",
		"ListAndWatch streams that the kubelet has open.", "resource")
	m.streamsOpened = m.counters("accelerator_streams_opened_total",
		"ListAndWatch streams that the kubelet has opened.", "resource")
	m.registrations = m.counters("accelerator_registrations_total",
		"Registrations with the kubelet, by result: ok, failed (refused, no stream followed, or no usable kubelet.sock), "+
			"or abandoned because the kubelet or our socket went away.", "resource", "result")
	m.kubeletRestarts = m.counters("accelerator_kubelet_restarts_total",
		"Restarts of the kubelet that a resource has met.", "resource")
	m.resourceReady = m.now("accelerator_resource_ready",
		"1 while a resource is registered with a stream open, or has nothing to offer.", "resource")
	m.allocations = m.counters("accelerator_allocations_total",
		"Allocate calls of the kubelet, by result: served or refused.", "resource", "result")
	m.allocatedDevices = m.counters("accelerator_allocated_devices_total",
		"Devices given to containers.", "resource")
	m.cdi = m.gauges("accelerator_cdi_ok",
		"1 while the CDI spec file is up to date, 0 while it cannot be written; no series where CDI is off.")

	m.hints = m.counters("accelerator_hints_total",
		"Hints that a card may have changed, by their source.", "source")
	m.scans = m.counters("accelerator_scans_total",
		"Readings of one card, by result: ok, gone, failed, timeout, "+
			"or starved if the daemon had no file descriptor or memory for it.", "result")
	m.scanDuration = m.histogram("accelerator_scan_duration_seconds",
		"How long it took to read one card; what timed out counts with the time after which it was given up.",
		100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1)
	m.listings = m.counters("accelerator_listings_total",
		"Listings of all cards, by result: ok, failed for at least one family, "+
			"or starved if the daemon had no file descriptor or memory for it.", "result")
	m.cardsUnreadable = m.gauges("accelerator_cards_unreadable",
		"Cards whose last reading failed or is overdue.").WithLabelValues()
	m.snapshotVersion = m.now("accelerator_snapshot_version",
		"Number of the newest list of devices; it grows by one with each change. 0: the first scan is not done.")
	m.holders = m.gauges("accelerator_holders_known",
		"1 while the kubelet answers who holds devices, 0 while it does not; "+
			"it is asked with each listing at least. No series before that.")

	m.uevents = m.counters("accelerator_uevents_total",
		"Uevents of the kernel that may concern a card.", "subsystem", "action")
	m.ueventsIgnored = m.counters("accelerator_uevents_ignored_total",
		"Uevents of the kernel that concern no card.").WithLabelValues()
	m.ueventsForged = m.counters("accelerator_uevents_forged_total",
		"Uevents dropped because they did not come from the kernel.").WithLabelValues()
	m.ueventsMalformed = m.counters("accelerator_uevents_malformed_total",
		"Uevents that were not understood; each had all cards read.").WithLabelValues()
	m.ueventOverflows = m.counters("accelerator_uevent_overflows_total",
		"Times that the kernel dropped uevents because the socket was full; each had all cards read.").WithLabelValues()
	m.inotifyEvents = m.counters("accelerator_inotify_events_total",
		"Inotify events that may concern a card: of device nodes, or of a simulated tree.", "source")
	m.inotifyOverflows = m.counters("accelerator_inotify_overflows_total",
		"Times that inotify events were lost because the queue was full; each had all cards read.", "source")
	m.sourceUp = m.gauges("accelerator_source_up",
		"1 while a source of news is open, 0 while it is lost and tried again.", "source")

	m.apiEvents = m.counters("accelerator_api_events_total",
		"Kubernetes Events, by result: sent, failed or dropped.", "result")
	m.apiFailures = m.counters("accelerator_api_failures_total",
		"Requests to the API server that failed and are made again; "+
			"Events that it refuses for good count in accelerator_api_events_total.").WithLabelValues()
	m.configReloads = m.counters("accelerator_config_reloads_total",
		"Times that the files of settings were taken over or refused, after a hangup signal or because they changed, "+
			"by result: ok or refused.", "result")
	m.logDropped = m.counters("accelerator_log_dropped_total",
		"Lines of the log that were dropped because its reader had stalled or they could not be written, by level.",
		"level")

	// Counters whose labels are known begin at 0, because Prometheus misses the first event of a
	// series that begins at 1.
	for counters, labels := range map[*prometheus.CounterVec][]string{
		m.scans: {ok, gone, failed, timeout, starved}, m.listings: {ok, failed, starved},
		m.apiEvents: {sent, failed, dropped}, m.configReloads: {ok, refused},
		m.logDropped: {"debug", "info", "warn", "error"},
	} {
		for _, label := range labels {
			counters.WithLabelValues(label)
		}
	}
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	m.registry.MustRegister(m, collectors.NewGoCollector(), process)
	return m
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return add(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return add(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

func (m *Metrics) now(name, help string, labels ...string) now {
	return add(m, now{prometheus.NewDesc(name, help, labels, nil)})
}

// histogram returns a histogram with classic buckets, in seconds, and native ones. The native ones
// are 10 % wide at most, and wider if there would be more than 100.
func (m *Metrics) histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return add(m, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramZeroThreshold:    1e-6,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}))
}

func add[C prometheus.Collector](m *Metrics, c C) C {
	m.collectors = append(m.collectors, c)
	return c
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors {
		c.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors {
		c.Collect(to)
	}
	if s := m.state.Load(); s != nil {
		m.collectState(s, to)
	}
}

// Follow sets the functions that the state is read from, until the next call.
func (m *Metrics) Follow(s State) { m.state.Store(&s) }

// maxScrapes bounds the scrapes under way: each takes memory for the whole page.
const maxScrapes = 4

// Handler returns the handler of the page. It serves text, or protobuf if the request accepts
// it; only protobuf has native histograms. The page is not compressed: it has 20 KB, and the
// writers of gzip would keep 2 MiB.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry:            m.registry, // counts errors of gathering
		ErrorHandling:       promhttp.ContinueOnError,
		DisableCompression:  true,
		MaxRequestsInFlight: maxScrapes,
	})
}
