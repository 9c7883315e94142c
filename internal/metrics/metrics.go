package metrics

import (
	"net/http"
	"runtime"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics counts events and serves the page of metrics. Create it with [New]; nil counts
// nothing.
type Metrics struct {
	registry *prometheus.Registry
	state    atomic.Pointer[State]

	transitions     *prometheus.CounterVec
	identityChanges *prometheus.CounterVec
	reasons         few

	uevents          *prometheus.CounterVec
	subsystems       few
	ueventsIgnored   prometheus.Counter
	ueventsForged    prometheus.Counter
	ueventsMalformed prometheus.Counter
	ueventOverflows  prometheus.Counter
	inotifyEvents    *prometheus.CounterVec
	inotifyOverflows *prometheus.CounterVec
	sourceUp         *prometheus.GaugeVec

	hints           *prometheus.CounterVec
	hintSources     few
	scans           *prometheus.CounterVec
	scanDuration    prometheus.Histogram
	listings        *prometheus.CounterVec
	cardsUnreadable prometheus.Gauge
	holders         answer

	hintToSend       prometheus.Histogram
	listsSent        *prometheus.CounterVec
	streamsOpened    *prometheus.CounterVec
	registrations    *prometheus.CounterVec
	kubeletRestarts  *prometheus.CounterVec
	allocations      *prometheus.CounterVec
	allocatedDevices *prometheus.CounterVec
	cdi              answer

	apiEvents     *prometheus.CounterVec
	apiFailures   prometheus.Counter
	configReloads *prometheus.CounterVec
	logDropped    *prometheus.CounterVec
}

// New returns metrics with a registry of their own. Counters whose labels are known begin at
// 0, because Prometheus misses the first event of a series that begins at 1.
func New(version string) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{
		registry: r,

		transitions:     counters(r, transitions),
		identityChanges: counters(r, identityChanges),
		reasons:         few{most: mostReasons},

		uevents:          counters(r, uevents),
		subsystems:       few{most: mostSubsystems},
		ueventsIgnored:   counter(r, ueventsIgnored),
		ueventsForged:    counter(r, ueventsForged),
		ueventsMalformed: counter(r, ueventsMalformed),
		ueventOverflows:  counter(r, ueventOverflows),
		inotifyEvents:    counters(r, inotifyEvents),
		inotifyOverflows: counters(r, inotifyOverflows),
		sourceUp:         gauges(r, sourceUp),

		hints:           counters(r, hints),
		hintSources:     few{most: mostHintSources},
		scans:           counters(r, scans, ok, gone, failed, timeout, starved),
		scanDuration:    histogram(r, scanDuration, scanBuckets),
		listings:        counters(r, listings, ok, failed, starved),
		cardsUnreadable: gauge(r, cardsUnreadable),

		hintToSend:       histogram(r, hintToSend, sendBuckets),
		listsSent:        counters(r, listsSent),
		streamsOpened:    counters(r, streamsOpened),
		registrations:    counters(r, registrations),
		kubeletRestarts:  counters(r, kubeletRestarts),
		allocations:      counters(r, allocations),
		allocatedDevices: counters(r, allocatedDevices),

		apiEvents:     counters(r, apiEvents, sent, failed, dropped),
		apiFailures:   counter(r, apiFailures),
		configReloads: counters(r, configReloads, ok, refused),
		logDropped:    counters(r, logDropped, "debug", "info", "warn", "error"),
	}
	gauges(r, buildInfo).WithLabelValues(version, runtime.Version()).Set(1)
	r.MustRegister(
		newNow(m),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Follow sets the functions that gauges are read from, until the next call.
func (m *Metrics) Follow(s State) {
	if m != nil {
		m.state.Store(&s)
	}
}

// maxScrapes bounds the scrapes under way: each takes memory for the whole page.
const maxScrapes = 4

// Handler returns the handler of the page. It serves text, or protobuf if the request accepts
// it; only protobuf has native histograms. The page is not compressed: it has 20 KB, and the
// writers of gzip would keep 2 MiB.
func (m *Metrics) Handler() http.Handler {
	if m == nil {
		return nil
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry:            m.registry, // counts errors of gathering
		ErrorHandling:       promhttp.ContinueOnError,
		DisableCompression:  true,
		MaxRequestsInFlight: maxScrapes,
	})
}
