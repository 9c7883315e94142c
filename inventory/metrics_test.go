package inventory_test

import (
	"errors"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/metricstest"
)

// Device changes, readings, listings and questions are counted.
func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := metrics.New("test")
		cfg := testConfig
		cfg.Metrics, cfg.RecoveryHold = m, 0
		family := newFakeFamily("test")
		family.set(cardA, good(0, 0))
		family.set(cardB, good(1, 0, unbound))
		r := start(t, cfg, family)

		seen := map[string]string{}
		expect := func(when string, want map[string]string) {
			t.Helper()
			got := map[string]string{}
			now := metricstest.Samples(metricstest.Page(t, m), "accelerator_device_", "accelerator_hints", "accelerator_scans", "accelerator_list", "accelerator_cards")
			for series, value := range now {
				if seen[series] != value {
					got[series] = value
				}
			}
			compare.Values(t, when+": what has changed", want, got)
			seen = now
		}
		expect("first scan", map[string]string{
			`accelerator_device_transitions_total{new="healthy",old="absent",reason=""}`:                 "1",
			`accelerator_device_transitions_total{new="unhealthy",old="absent",reason="driver-unbound"}`: "1",
			`accelerator_scans_total{result="ok"}`:                                                       "2",
			`accelerator_listings_total{result="ok"}`:                                                    "1",
		})

		family.set(cardA, good(0, 0, inventory.Condition{Reason: "power-throttled=6", Health: inventory.Degraded}))
		r.hint(cardA)
		expect("throttled", map[string]string{
			`accelerator_device_transitions_total{new="degraded",old="healthy",reason="power-throttled"}`: "1",
			`accelerator_hints_total{source="test"}`:                                                      "1",
			`accelerator_scans_total{result="ok"}`:                                                        "3",
		})
		family.set(cardA, good(0, 0))
		r.hint(cardA)
		expect("recovered", map[string]string{
			`accelerator_device_transitions_total{new="healthy",old="degraded",reason=""}`: "1",
			`accelerator_hints_total{source="test"}`:                                       "2",
			`accelerator_scans_total{result="ok"}`:                                         "4",
		})
		family.pull(cardA)
		r.hint(cardA)
		expect("pulled", map[string]string{
			`accelerator_device_transitions_total{new="absent",old="healthy",reason=""}`: "1",
			`accelerator_hints_total{source="test"}`:                                     "3",
			`accelerator_scans_total{result="gone"}`:                                     "1",
		})

		family.fail(cardB, errors.New("input/output error"))
		r.hint(cardB)
		expect("unreadable", map[string]string{
			`accelerator_hints_total{source="test"}`:   "4",
			`accelerator_scans_total{result="failed"}`: "1",
			`accelerator_cards_unreadable`:             "1",
		})
		family.fail(cardB, nil)
		release := family.hang(cardB)
		r.hint(cardB)
		r.after(cfg.ReadTimeout)
		expect("hangs", map[string]string{
			`accelerator_hints_total{source="test"}`:    "5",
			`accelerator_scans_total{result="timeout"}`: "1",
		})
		release()
		r.after(time.Millisecond)
		expect("answers", map[string]string{`accelerator_scans_total{result="ok"}`: "5"})
		compare.Empty(t, "unreadable cards", metricstest.Samples(metricstest.Page(t, m), "accelerator_cards_unreadable"))
		want := map[string]string{`accelerator_scan_duration_seconds_count`: "8", `accelerator_scan_duration_seconds_sum`: "2"}
		compare.Values(t, "durations", want, metricstest.Samples(metricstest.Page(t, m), "accelerator_scan_duration_seconds_count", "accelerator_scan_duration_seconds_sum"))
	})
}

// The accelerator_holders_known metric is set even before a device needs the answer about holders.
func TestHoldersKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const series = `accelerator_holders_known{source="pod-resources"}`
		m, d, f := metrics.New("test"), newFakeKubelet(), newFakeFamily("test")
		cfg := withKubelet(d)
		cfg.Metrics = m
		f.set(cardA, good(0, 0))
		r := start(t, cfg, f)
		for _, step := range []struct{ name, why, want string }{
			{"at first", "", "1"},
			{"the kubelet does not answer", "no such file", ""},
			{"it does again", "", "1"},
		} {
			d.fail(step.why)
			r.after(cfg.ResyncInterval + time.Second)
			compare.Equal(t, step.name+": "+series, step.want, metricstest.Samples(metricstest.Page(t, m), series)[series])
		}
	})
}
