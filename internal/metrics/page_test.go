package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// The whole page, including the metrics of Go and the process, follows Prometheus' rules.
func TestLint(t *testing.T) {
	problems := must.Value(promlint.New(scrape(t, story(), "").Body).Lint())(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The page of the DRA driver has its own metrics, and the driver's name as a resource. The counters begin
// at 0. Prometheus' rules hold.
func TestDriver(t *testing.T) {
	m := metrics.New("v1.2.3")
	claims := 0
	m.AddDriver(driver, func() int { return claims })
	prefixes := []string{"accelerator_dra_claims", "accelerator_dra_slices", "accelerator_lists_sent", "accelerator_alloc", "accelerator_hint_to_send_seconds_count"}
	ours := func() (lines []string) {
		text := page(t, m)
		for _, prefix := range prefixes {
			lines = append(lines, samples(text, prefix)...)
		}
		return lines
	}
	want := []string{
		"accelerator_dra_claims 0", "accelerator_dra_slices_failed_total 0", `accelerator_lists_sent_total{resource="accelerator.b-com.com"} 0`,
		`accelerator_allocated_devices_total{resource="accelerator.b-com.com"} 0`,
		`accelerator_allocations_total{resource="accelerator.b-com.com",result="refused"} 0`,
		`accelerator_allocations_total{resource="accelerator.b-com.com",result="served"} 0`,
		"accelerator_hint_to_send_seconds_count 0",
	}
	compare.Values(t, "before the first event", want, ours())
	claims = 3
	m.SlicesFailed()
	m.ListSent(driver, time.Millisecond, true)
	m.AllocateServed(driver, 2)
	m.AllocateRefused(driver)
	want = []string{
		"accelerator_dra_claims 3", "accelerator_dra_slices_failed_total 1", `accelerator_lists_sent_total{resource="accelerator.b-com.com"} 1`,
		`accelerator_allocated_devices_total{resource="accelerator.b-com.com"} 2`,
		`accelerator_allocations_total{resource="accelerator.b-com.com",result="refused"} 1`,
		`accelerator_allocations_total{resource="accelerator.b-com.com",result="served"} 1`,
		"accelerator_hint_to_send_seconds_count 1",
	}
	compare.Values(t, "after one event of each kind", want, ours())
	if problems, err := promlint.New(scrape(t, m, "").Body).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: found %v, %v, want nothing", problems, err)
	}
}

// A scrape with protobuf gets native histograms; every scrape gets classic buckets.
func TestHistograms(t *testing.T) {
	m := metrics.New("test")
	for _, took := range []time.Duration{70, 71, 900, 2600} {
		m.ListSent(accelerator, took*time.Microsecond, true)
		m.ScanDone(took * time.Microsecond)
	}
	for _, name := range []string{"accelerator_hint_to_send_seconds", "accelerator_scan_duration_seconds"} {
		h := families(t, m)[name].GetMetric()[0].GetHistogram()
		if n := nativeCount(h); n != 4 || h.GetSampleCount() != 4 || h.GetSchema() != 3 {
			t.Errorf("%s: found %d of %d observations in native buckets, schema %d; want 4 of 4, schema 3", name, n, h.GetSampleCount(), h.GetSchema())
		}
		compare.Equal(t, name+": observations up to 1 ms in the classic buckets of protobuf", 3, classicCount(h, 1e-3))
		line := name + `_bucket{le="0.001"} `
		compare.Values(t, "text", []string{line + "3"}, samples(page(t, m), line))
	}
}

// nativeCount returns the number of observations in the native buckets and the zero bucket.
func nativeCount(h *dto.Histogram) uint64 {
	sum, bucket := h.GetZeroCount(), int64(0)
	for _, delta := range h.GetPositiveDelta() {
		bucket += delta
		sum += uint64(bucket)
	}
	return sum
}

func classicCount(h *dto.Histogram, upTo float64) uint64 {
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() == upTo {
			return b.GetCumulativeCount()
		}
	}
	return 0
}

// Label values from other sources make a bounded number of series.
func TestLabelsAreBounded(t *testing.T) {
	m := metrics.New("test")
	for i := range 1000 {
		odd := fmt.Sprintf("odd-%d\xff", i)
		m.UEvent([]byte(odd), []byte(odd))
		m.Hint(odd)
		m.Transition("healthy", "unhealthy", odd+"=1")
	}
	text := page(t, m)
	for prefix, most := range map[string]int{
		"accelerator_uevents_total": 16 + 1, "accelerator_hints_total": 16 + 1, "accelerator_device_transitions_total": 100 + 1,
	} {
		lines := samples(text, prefix+"{")
		compare.Equal(t, prefix+": series", most, len(lines))
		compare.Contains(t, prefix, `="other"`, strings.Join(lines, "\n"))
	}
}

// The kernel's eight actions have labels of their own, even for an "other" subsystem.
func TestActions(t *testing.T) {
	m := metrics.New("test")
	for _, action := range []string{"add", "remove", "change", "move", "online", "offline", "bind", "unbind", "offer", ""} {
		m.UEvent([]byte("pci"), []byte(action))
	}
	if lines := samples(page(t, m), "accelerator_uevents_total{"); len(lines) != 9 {
		t.Errorf("%d series, want 9: %q", len(lines), lines)
	}
}

// A name that is not UTF-8 does not remove other series from the page.
func TestInvalidUTF8(t *testing.T) {
	m := metrics.New("test")
	odd := buried
	odd.ID, odd.Resource, odd.PCI = "\xff\"\n{}", "b-com.com/\xfe", "0000:\xff"
	m.Follow(stateOf(nil, port0, odd, odd))
	text := page(t, m)
	for _, want := range []string{
		`accelerator_device_reason{device="�\"\n{}",reason="removed-in-use",resource="b-com.com/�"} 1`,
		`accelerator_devices{health="healthy",resource="b-com.com/accelerator"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("page: found no line %s, want one:\n%s", want, text)
		}
	}
}

// The number of series of holders is bounded, and further holders are counted. Without Holders there
// are no series.
func TestHolders(t *testing.T) {
	m := metrics.New("test")
	state := stateOf(nil)
	state.Holders = func() (all []metrics.Holder) {
		for i := range 1030 {
			all = append(all, metrics.Holder{Device: fmt.Sprint("unit-", i), Resource: accelerator, Namespace: "default", Pod: "\xff", Container: "main"})
		}
		return all
	}
	m.Follow(state)
	text := page(t, m)
	compare.Equal(t, "series of holders", 1024, len(samples(text, "accelerator_device_holder{")))
	compare.Values(t, "omitted", []string{"accelerator_device_holders_omitted 6"}, samples(text, "accelerator_device_holders_omitted"))
	state.Holders = nil
	m.Follow(state)
	compare.Empty(t, "without Holders", samples(page(t, m), "accelerator_device_holder"))
}

// A retired resource has no series. Its counters begin at 0 when it is advertised again.
func TestRetired(t *testing.T) {
	m := story()
	m.Follow(stateOf(nil)) // without holders
	m.ResourceRetired(accelerator)
	compare.Empty(t, "page", samples(strings.Join(grep(page(t, m), accelerator), "\n"), "accelerator_"))
	if lines := grep(page(t, m), `resource="b-com.com/pool"`); len(lines) == 0 {
		t.Error("the other resource has lost its series too")
	}
	m.ResourceOffered(accelerator)
	if lines := grep(page(t, m), `accelerator_lists_sent_total{resource="b-com.com/accelerator"} 0`); len(lines) != 1 {
		t.Errorf("lists of the resource that is offered again: found %q, want one line with 0", lines)
	}
}

func grep(text, part string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// Ignored uevents do not allocate, because there are many of them.
func TestIgnoredUEventsAllocateNothing(t *testing.T) {
	m := metrics.New("test")
	compare.Equal(t, "allocations", 0, testing.AllocsPerRun(1000, m.UEventIgnored))
}
