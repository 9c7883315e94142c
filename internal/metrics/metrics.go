package metrics

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"b-com.com/accelerator-device-plugin/internal/sensors"
)

// Metrics counts events and serves the metrics page. Create it with [New].
type Metrics struct {
	registry   *prometheus.Registry
	collectors []prometheus.Collector // in the order of the documentation
	state      atomic.Pointer[State]
	waitsFor   atomic.Pointer[func() string]

	// Gauges whose values [Metrics.Collect] gets from the state at each scrape.
	ownerWaiting, modeInfo, configInfo, devices, deviceHealth, deviceReason, deviceInfo, tombstones now
	streams, resourceReady, snapshotVersion                                                         now
	holder, holdersOmitted                                                                          now
	cardHealthChanges, cardRemovals, cardMissing                                                    now
	sensors                                                                                         map[sensors.Kind]sensorGauges
	sensorFailures, cardInfo, correctable, linkSpeed, linkMaxSpeed, linkWidth, linkMaxWidth         now

	transitions     *prometheus.CounterVec
	identityChanges *prometheus.CounterVec
	ledgerStored    *prometheus.GaugeVec
	reasons         few

	hintToSend       prometheus.Histogram
	listsSent        *prometheus.CounterVec
	streamsOpened    *prometheus.CounterVec
	registrations    *prometheus.CounterVec
	kubeletRestarts  *prometheus.CounterVec
	allocations      *prometheus.CounterVec
	allocatedDevices *prometheus.CounterVec
	cdi              *prometheus.GaugeVec
	slicesFailed     prometheus.Counter // registered by AddDriver

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

// New returns metrics with their own registry. It declares every metric, in the order of the table in docs/metrics.md,
// which is generated from the metrics' descriptors.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		reasons:  few{most: mostReasons}, hintSources: few{most: mostHintSources},
		subsystems: few{most: mostSubsystems},
	}
	m.gauges("accelerator_build_info", "Always 1. The labels are the program's version and the Go version.", "version", "goversion").
		WithLabelValues(version, runtime.Version()).Set(1)
	m.modeInfo = m.now("accelerator_mode_info", "Always 1. The label is the current mode.", "mode")
	m.configInfo = m.now("accelerator_config_info",
		"Always 1. The label is the hash of the settings files in effect: the first 12 hex digits of the SHA-256 "+
			"of the --config file followed by the --overrides file. It is \"\" if there are no files.",
		"hash")

	m.ownerWaiting = m.now("accelerator_owner_waiting",
		"1 while the daemon is waiting for another daemon on the node, or for its state directory. With the reasons naming, api, withdrawal and state-dir, "+
			"it doesn't advertise any devices. With settings, it advertises its devices under their old names. No series if it isn't waiting.", "reason")

	m.devices = m.now("accelerator_devices",
		"Devices by resource and health. The resource is \"\" for devices that aren't advertised.",
		"resource", "health")
	m.deviceHealth = m.now("accelerator_device_health",
		"1 for the current health of a device, 0 for the other two values.", "device", "pci", "family", "resource", "health")
	m.deviceReason = m.now("accelerator_device_reason",
		"1 for each reason why a device isn't healthy. The series disappears when the reason no longer applies.", "device", "resource", "reason")
	m.deviceInfo = m.now("accelerator_device_info",
		"Always 1. The labels describe the device.",
		"device", "pci", "pci_id", "family", "resource", "afu", "interface", "numa_node")
	m.tombstones = m.now("accelerator_tombstones",
		"Devices that are unhealthy because a container is using (or may be using) the device that previously had the same ID. "+
			"That device was removed, replaced, renumbered or renamed, or was given to the container through the other API.",
		"resource", "reason")
	m.holder = m.now("accelerator_device_holder",
		"1 for each container that is using a device, according to the kubelet's latest response. No series with --holder-metrics=false.",
		"device", "resource", "namespace", "pod", "container")
	m.holdersOmitted = m.now("accelerator_device_holders_omitted",
		"Holders that are left out of accelerator_device_holder, which has at most 1024 series.")
	m.transitions = m.counters("accelerator_device_transitions_total",
		"Changes in device health. The value \"absent\" means that the device doesn't exist. "+
			"If the device was added or its health got worse, reason is its worst reason. Otherwise, reason is \"\".", "old", "new", "reason")
	m.cardHealthChanges = m.now("accelerator_card_health_changes_total",
		"Changes in the health of a card's hardware since the daemon started. Cordoning, excluding, programming, plugging in or pulling a card doesn't count. A change that may be part of a removal is counted 10 s later. "+
			"This metric and the next two cover only the cards in the ledger (at most 256).", "card")
	m.cardRemovals = m.now("accelerator_card_removals_total",
		"Removals of a card since the daemon started.", "card")
	m.cardMissing = m.now("accelerator_card_missing",
		"1 if a card is missing: it wasn't found after a daemon restart or a reboot, or it disappeared after a fault. 0 for all other cards.", "card")
	m.ledgerStored = m.gauges("accelerator_ledger_stored",
		"1 while the ledger (cards.json in --state-dir) can be read and written, 0 while it can't. No series without --state-dir.")
	m.identityChanges = m.counters("accelerator_device_identity_changes_total",
		"Changes in the identity of devices that remained on the node, by attribute.", "attribute")

	m.sensors = map[sensors.Kind]sensorGauges{
		sensors.Temperature: m.sensor("temperature", "celsius", "Temperature measured by a card's sensor, in °C. The series without a chip are summaries. "+
			"Their sensor label is \"die\" for the FPGA, and \"hottest\" for the spot on the board that is closest to its limit."),
		sensors.Power:   m.sensor("power", "watts", "Power measured by a card's sensor, in W. The series without a chip is the whole board's power, and its sensor label is \"board\"."),
		sensors.Voltage: m.sensor("voltage", "volts", "Voltage measured by a card's sensor, in V."),
		sensors.Current: m.sensor("current", "amperes", "Current measured by a card's sensor, in A."),
	}
	m.sensorFailures = m.now("accelerator_sensor_failures_total",
		"Failed reads of a card's sensors since the daemon started, including reads that took longer than 10 s.", "card")

	m.cardInfo = m.now("accelerator_card_info",
		"Always 1. The labels are the card's versions (\"\" if not known): bitstream_id is the static region, bmc_firmware and bmc_build are the "+
			"board controller's firmware and FPGA, boot_image is the image that the board booted, and shell is an XRT card's shell.",
		"card", "bitstream_id", "bmc_firmware", "bmc_build", "boot_image", "shell")
	m.correctable = m.now("accelerator_card_correctable_errors_total",
		"A card's correctable PCIe errors since the kernel found the card, by type. The types have the same names as in the kernel.", "card", "type")
	m.linkSpeed = m.now("accelerator_card_current_link_transfers_per_second", "Current speed of each lane in the card's PCIe link.", "card")
	m.linkMaxSpeed = m.now("accelerator_card_max_link_transfers_per_second", "Maximum lane speed that the card supports.", "card")
	m.linkWidth = m.now("accelerator_card_current_link_width", "Current number of lanes in the card's PCIe link.", "card")
	m.linkMaxWidth = m.now("accelerator_card_max_link_width", "Maximum number of lanes that the card supports.", "card")

	m.hintToSend = m.histogram("accelerator_hint_to_send_seconds",
		"Time from a hint (a uevent or an inotify event) until the resulting list was sent to the kubelet. There is one observation for each list "+
			"caused by a hint. In the DRA driver: time until it started writing the slices.",
		50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 10e-3, 20e-3, 50e-3,
		100e-3, 250e-3, 1)
	m.listsSent = m.counters("accelerator_lists_sent_total",
		"Lists sent on ListAndWatch streams. In the DRA driver: number of times that slices were published.", "resource")
	m.streams = m.now("accelerator_streams",
		"Open ListAndWatch streams. In the DRA driver: the kubelet's open health streams.", "resource")
	m.streamsOpened = m.counters("accelerator_streams_opened_total",
		"ListAndWatch streams opened by the kubelet.", "resource")
	m.registrations = m.counters("accelerator_registrations_total",
		"Registrations with the kubelet, by result: ok, failed (the kubelet rejected the registration or didn't open a stream, or kubelet.sock couldn't be used), "+
			"or abandoned (kubelet.sock was replaced, the plugin's socket was removed, or a new registration was requested).", "resource", "result")
	m.kubeletRestarts = m.counters("accelerator_kubelet_restarts_total",
		"Kubelet restarts, counted once for each resource.", "resource")
	m.resourceReady = m.now("accelerator_resource_ready",
		"1 while a resource is registered and its stream is open, or while it doesn't have any devices. "+
			"In the DRA driver: 1 while the kubelet has registered the driver and the API server has the latest slices.", "resource")
	m.allocations = m.counters("accelerator_allocations_total",
		"The kubelet's Allocate calls, by result: served or refused. In the DRA driver: attempts to prepare a claim.", "resource", "result")
	m.allocatedDevices = m.counters("accelerator_allocated_devices_total",
		"Devices allocated to containers. In the DRA driver: devices prepared for claims.", "resource")
	m.cdi = m.gauges("accelerator_cdi_ok",
		"1 while the CDI spec file is up to date, 0 while it can't be written. No series while CDI is off.")

	m.slicesFailed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "accelerator_dra_slices_failed_total",
		Help: "Number of times that the DRA driver couldn't write ResourceSlices. The driver retries.",
	})

	m.hints = m.counters("accelerator_hints_total",
		"Hints that a card may have changed, by source.", "source")
	m.scans = m.counters("accelerator_scans_total",
		"Reads of individual cards, by result: ok, gone, failed, timeout, "+
			"or starved (the daemon ran out of file descriptors or memory).", "result")
	m.scanDuration = m.histogram("accelerator_scan_duration_seconds",
		"Time to read one card. For a read that timed out, this is the time limit.",
		100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1)
	m.listings = m.counters("accelerator_listings_total",
		"Number of times that all cards were listed in sysfs, by result: ok, failed (for at least one family), "+
			"or starved (the daemon ran out of file descriptors or memory).", "result")
	m.cardsUnreadable = m.gauges("accelerator_cards_unreadable",
		"Cards whose last read failed or is overdue.").WithLabelValues()
	m.snapshotVersion = m.now("accelerator_snapshot_version",
		"Version of the latest device snapshot. It increases by one with each change, and is 0 before the first snapshot.")
	m.holders = m.gauges("accelerator_holders_known",
		"1 while a source of device holders responds, 0 while it doesn't. The sources are the kubelet's pod-resources API, "+
			"its checkpoint, and the DRA driver's claims.json. The daemon queries each of them at least once per --resync-interval. "+
			"There is no series until a source has been queried.", "source")

	m.uevents = m.counters("accelerator_uevents_total",
		"Kernel uevents that may concern a card.", "subsystem", "action")
	m.ueventsIgnored = m.counters("accelerator_uevents_ignored_total",
		"Kernel uevents that don't concern a card.").WithLabelValues()
	m.ueventsForged = m.counters("accelerator_uevents_forged_total",
		"Uevents that were dropped because they didn't come from the kernel.").WithLabelValues()
	m.ueventsMalformed = m.counters("accelerator_uevents_malformed_total",
		"Uevents that couldn't be parsed. The daemon rereads all cards after each one.").WithLabelValues()
	m.ueventOverflows = m.counters("accelerator_uevent_overflows_total",
		"Number of times that the kernel dropped uevents because the socket buffer was full. The daemon rereads all cards each time.").WithLabelValues()
	m.inotifyEvents = m.counters("accelerator_inotify_events_total",
		"Inotify events that may concern a card, by source: nodes (device nodes) or tree (a simulated sysfs).", "source")
	m.inotifyOverflows = m.counters("accelerator_inotify_overflows_total",
		"Number of times that inotify events were lost because the queue was full. The daemon rereads all cards each time.", "source")
	m.sourceUp = m.gauges("accelerator_source_up",
		"1 while an event source is open, 0 while it is lost and the daemon is trying to reopen it.", "source")

	m.apiEvents = m.counters("accelerator_api_events_total",
		"Kubernetes Events, by result: sent, failed or dropped.", "result")
	m.apiFailures = m.counters("accelerator_api_failures_total",
		"Requests to the API server that failed and are retried. "+
			"Events that it rejects permanently are counted in accelerator_api_events_total.").WithLabelValues()
	m.configReloads = m.counters("accelerator_config_reloads_total",
		"Reloads of the settings files after SIGHUP or a change to the files, by result: ok or refused.", "result")
	m.logDropped = m.counters("accelerator_log_dropped_total",
		"Log lines that were dropped because they weren't read or couldn't be written, by level.",
		"level")

	// Counters whose label values are known in advance start at 0, because if a series starts at 1, Prometheus misses
	// the first event.
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

// AddDriver adds the metrics that only the DRA driver has. claims returns the number of prepared claims; it must be
// safe for concurrent use and must not block. name is the value of the resource label in the driver's other metrics.
// AddDriver must be called at most once.
func (m *Metrics) AddDriver(name string, claims func() int) {
	m.registry.MustRegister(m.slicesFailed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "accelerator_dra_claims",
		Help: "Claims that the DRA driver has prepared but not yet unprepared.",
	}, func() float64 { return float64(claims()) }))
	m.listsSent.WithLabelValues(name)
	m.allocatedDevices.WithLabelValues(name)
	for _, r := range []string{served, refused} {
		m.allocations.WithLabelValues(name, r)
	}
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

// histogram returns a histogram that has both native buckets and the given classic buckets, in seconds. Native buckets
// are at most 10% wide, unless that would take more than 100 of them.
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

// sensorGauges contains the gauges for one kind of sensor.
type sensorGauges struct{ value, most, crit now }

func (m *Metrics) sensor(kind, unit, help string) sensorGauges {
	gauge := func(part, help string) now {
		return m.now("accelerator_sensor_"+kind+part+"_"+unit, help, "card", "chip", "sensor")
	}
	return sensorGauges{gauge("", help), gauge("_max", "The sensor's warning limit."), gauge("_crit", "The sensor's critical limit.")}
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
	if waits := m.waitsFor.Load(); waits != nil {
		if reason := (*waits)(); reason != "" {
			to <- prometheus.MustNewConstMetric(m.ownerWaiting.Desc, prometheus.GaugeValue, 1, reason)
		}
	}
	if s := m.state.Load(); s != nil {
		m.collectState(s, to)
	}
}

// Follow sets the functions that return the gauges' values.
func (m *Metrics) Follow(s State) { m.state.Store(&s) }

// FollowOwner sets the function that returns why the daemon is waiting for another daemon on the node, or "" if it
// isn't waiting. The function must be safe for concurrent use and must not block.
func (m *Metrics) FollowOwner(waitsFor func() string) { m.waitsFor.Store(&waitsFor) }

// maxScrapes limits the number of concurrent scrapes, because each takes up memory for the whole page.
const maxScrapes = 4

// Handler returns the handler for the metrics page. It serves text or, if the client accepts it, protobuf, which is the
// only format that includes native histograms. The page isn't compressed, because it is only about 40 KB for 32 ports,
// and gzip would take 2 MiB of memory.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry:            m.registry, // counts errors while gathering
		ErrorHandling:       promhttp.ContinueOnError,
		DisableCompression:  true,
		MaxRequestsInFlight: maxScrapes,
	})
}
