// Package metricstest gives tests access to the page of a [metrics.Metrics] and to the values on that page. It doesn't
// have any state.
package metricstest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/metrics"
)

// Page returns the page as text, without the metrics about Go, the process and the page itself.
func Page(t testing.TB, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("scrape = %d\n%s", w.Code, w.Body)
	}
	return Ours(w.Body.String())
}

// Ours returns those lines of a page that belong to this project's metrics.
func Ours(page string) string {
	var ours strings.Builder
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "accelerator_") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}

// Samples returns the values on a page, keyed by series. It includes only series that start with one of the prefixes
// and whose value isn't 0.
func Samples(page string, prefixes ...string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		last := strings.LastIndexByte(line, ' ')
		series, value := line[:last], line[last+1:]
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) && value != "0" {
				found[series] = value
			}
		}
	}
	return found
}
