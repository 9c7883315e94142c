package keep

import "github.com/prometheus/client_golang/prometheus"

// Metrics collects a [Keeper]'s metrics.
type Metrics struct{ *Keeper }

// Only references on the list have time series, so no metric has more than [mostReferences] of them.
var (
	pulls   = prometheus.NewDesc("accelerator_bitstream_pulls_total", "Attempts to pull or check a listed bitstream, by result: installed, unchanged (already in the store) or failed.", []string{"result"}, nil)
	present = prometheus.NewDesc("accelerator_bitstream_present", "1 if the store contains the bitstream that the reference pointed to when it was last checked, 0 if not.", []string{"reference"}, nil)
	checked = prometheus.NewDesc("accelerator_bitstream_checked_timestamp_seconds", "Unix time of the last successful pull or check of the reference. After a start, there is no series until the first success.", []string{"reference"}, nil)
)

// Describe implements [prometheus.Collector].
func (m Metrics) Describe(to chan<- *prometheus.Desc) {
	to <- pulls
	to <- present
	to <- checked
}

// Collect implements [prometheus.Collector].
func (m Metrics) Collect(to chan<- prometheus.Metric) {
	states, counts := m.States()
	for result, n := range counts {
		to <- prometheus.MustNewConstMetric(pulls, prometheus.CounterValue, float64(n), result)
	}
	for _, s := range states {
		value := 0.0
		if s.Present {
			value = 1
		}
		if s.Result != "" {
			to <- prometheus.MustNewConstMetric(present, prometheus.GaugeValue, value, s.Reference)
		}
		if !s.Checked.IsZero() {
			to <- prometheus.MustNewConstMetric(checked, prometheus.GaugeValue, float64(s.Checked.UnixMilli())/1000, s.Reference)
		}
	}
}
