package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Upper bounds of the classic buckets, in seconds, for scrapes without native histograms.
var (
	scanBuckets = []float64{100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1}
	sendBuckets = []float64{
		50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 250e-3, 1,
	}
)

func counter(r prometheus.Registerer, d Declaration) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: d.Name, Help: d.Help})
	r.MustRegister(c)
	return c
}

// counters returns a counter with labels. If values are given, which needs exactly one label,
// their counters exist from the beginning, at 0.
func counters(r prometheus.Registerer, d Declaration, values ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	r.MustRegister(c)
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

func gauge(r prometheus.Registerer, d Declaration) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: d.Name, Help: d.Help})
	r.MustRegister(g)
	return g
}

func gauges(r prometheus.Registerer, d Declaration) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
	r.MustRegister(g)
	return g
}

// histogram returns a histogram with classic and native buckets. The native ones are 10 % wide
// at most, and wider if there would be more than 100.
func histogram(r prometheus.Registerer, d Declaration, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: d.Name, Help: d.Help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramZeroThreshold:    1e-6,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	})
	r.MustRegister(h)
	return h
}
