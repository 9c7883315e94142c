package metrics

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"b-com.com/accelerator-device-plugin/operator/api/v1"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/mapping"
)

// Result is the outcome of an admission request.
type Result string

// Outcomes of admission requests.
const (
	Mapped    Result = "mapped"
	Unchanged Result = "unchanged"
	Denied    Result = "denied"
	Failed    Result = "failed"
)

// Metrics holds the metrics that other packages set.
type Metrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
	caExpiry *prometheus.GaugeVec
}

// buckets holds the upper bounds of the classic buckets, in seconds. They go beyond the three seconds that a request
// waits at most for mappings.
var buckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2, 3, 5}

// New registers the metrics and returns them. It counts the mappings in cache. If cache is nil, it registers only the
// version metric and returns nil.
func New(registry prometheus.Registerer, version string, cache client.Reader) *Metrics {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "accelerator_operator_build_info",
		Help: "Always 1. The labels are the program's version and the Go version.",
	}, []string{"version", "goversion"})
	info.WithLabelValues(version, runtime.Version()).Set(1)
	registry.MustRegister(info)
	if cache == nil {
		return nil
	}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "accelerator_admission_requests_total",
			Help: "Pod admission requests from API servers, by result: mapped, unchanged, denied or failed. If the result is denied or failed, the pod is rejected, regardless of `failurePolicy`.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "accelerator_admission_duration_seconds",
			Help: "Time from a request to its answer, excluding network time.", Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
		caExpiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "accelerator_webhook_ca_expiry_timestamp_seconds",
			Help: "Time when the webhook's CA expires. The CA is replaced four months earlier. Only the leader reports this, and only if the operator issues the certificates.",
		}, nil),
	}
	for _, r := range []Result{Mapped, Unchanged, Denied, Failed} {
		m.requests.WithLabelValues(string(r))
	}
	registry.MustRegister(m.requests, m.duration, m.caExpiry, collector{cache, prometheus.NewDesc("accelerator_mappings",
		"Number of mappings in all namespaces, by kind and `Ready` condition. All replicas report the same values.", []string{"kind", "ready"}, nil)})
	return m
}

// Plugins registers the metric that counts the FpgaDevicePlugins in cache.
func Plugins(registry prometheus.Registerer, cache client.Reader) {
	registry.MustRegister(pluginCollector{cache, prometheus.NewDesc("accelerator_device_plugins",
		"Number of FpgaDevicePlugins, by `Available` condition. All replicas report the same values. The metric exists only with `devicePlugins.enabled`.", []string{"available"}, nil)})
}

// pluginCollector counts FpgaDevicePlugins.
type pluginCollector struct {
	cache client.Reader
	desc  *prometheus.Desc
}

func (c pluginCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements [prometheus.Collector]. It doesn't send anything if the cache hasn't been filled within a second.
func (c pluginCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var list v1.FpgaDevicePluginList
	if c.cache.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	counts := map[bool]int{true: 0, false: 0}
	for i := range list.Items {
		counts[meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1.ConditionAvailable)]++
	}
	for available, n := range counts {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), strconv.FormatBool(available))
	}
}

// Request counts a request and records its duration.
func (m *Metrics) Request(r Result, took time.Duration) {
	if m != nil {
		m.requests.WithLabelValues(string(r)).Inc()
		m.duration.Observe(took.Seconds())
	}
}

// CAExpires records when the CA expires.
func (m *Metrics) CAExpires(at time.Time) {
	if m != nil {
		m.caExpiry.WithLabelValues().Set(float64(at.Unix()))
	}
}

// collector counts mappings.
type collector struct {
	cache client.Reader
	desc  *prometheus.Desc
}

func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements [prometheus.Collector]. It doesn't send anything if the cache hasn't been filled within a second.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var functions v2.AcceleratorFunctionList
	var regions v2.FpgaRegionList
	for _, list := range []client.ObjectList{&functions, &regions} {
		if c.cache.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
			return
		}
	}
	counts := map[labels]int{}
	for _, kind := range []string{mapping.KindFunction, mapping.KindRegion} {
		counts[labels{kind, true}], counts[labels{kind, false}] = 0, 0
	}
	for i := range functions.Items {
		counts[labels{mapping.KindFunction, ready(&functions.Items[i].Status)}]++
	}
	for i := range regions.Items {
		counts[labels{mapping.KindRegion, ready(&regions.Items[i].Status)}]++
	}
	for l, n := range counts {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), l.kind, strconv.FormatBool(l.ready))
	}
}

type labels struct {
	kind  string
	ready bool
}

func ready(s *v2.MappingStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, v2.ConditionReady)
}
