package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/test/metricstest"
)

const (
	accelerator = "b-com.com/accelerator"
	driver      = "accelerator.b-com.com"
	protobuf    = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)

// scrape returns the page in the format of the header accept.
func scrape(t testing.TB, m *metrics.Metrics, accept string) *http.Response {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "gzip, zstd")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, request)
	answer := w.Result()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("scrape = %s\n%s", answer.Status, w.Body)
	}
	return answer
}

func page(t testing.TB, m *metrics.Metrics) string { return metricstest.Page(t, m) }

// samples returns the lines of a page with this prefix, without HELP and TYPE.
func samples(page, prefix string) []string {
	var found []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// families returns the page as protobuf, by name.
func families(t testing.TB, m *metrics.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	answer := scrape(t, m, protobuf)
	all := make(map[string]*dto.MetricFamily)
	decoder := expfmt.NewDecoder(answer.Body, expfmt.ResponseFormat(answer.Header))
	for {
		var f dto.MetricFamily
		if err := decoder.Decode(&f); err != nil {
			return all // io.EOF, or an incomplete page, which makes the caller fail
		}
		all[f.GetName()] = &f
	}
}
