package metrics_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"b-com.com/accelerator-device-plugin/operator/api/v1"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/metrics"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

func gather(t *testing.T, registry *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families := must.Value(registry.Gather())(t)
	all := map[string]*dto.MetricFamily{}
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}

func registered(t *testing.T) (*prometheus.Registry, *metrics.Metrics) {
	t.Helper()
	scheme := runtime.NewScheme()
	must.Succeed(t, errors.Join(v1.AddToScheme(scheme), v2.AddToScheme(scheme)))
	available := v1.FpgaDevicePluginStatus{Conditions: []metav1.Condition{{Type: v1.ConditionAvailable, Status: metav1.ConditionTrue}}}
	ready := v2.MappingStatus{Conditions: []metav1.Condition{{Type: v2.ConditionReady, Status: metav1.ConditionTrue}}}
	bad := v2.MappingStatus{Conditions: []metav1.Condition{{Type: v2.ConditionReady, Status: metav1.ConditionFalse}}}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&v2.AcceleratorFunction{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Status: ready},
		&v2.AcceleratorFunction{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "x"}, Status: ready},
		&v2.AcceleratorFunction{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "y"}, Status: bad},
		&v2.FpgaRegion{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "z"}},
		&v1.FpgaDevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: available},
		&v1.FpgaDevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: available},
		&v1.FpgaDevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
	).Build()
	registry := prometheus.NewRegistry()
	metrics.Plugins(registry, cache)
	return registry, metrics.New(registry, "v1.2.3", cache)
}

func TestMappings(t *testing.T) {
	registry, _ := registered(t)
	got := map[string]float64{}
	for _, m := range gather(t, registry)["accelerator_mappings"].Metric {
		got[m.Label[0].GetValue()+" "+m.Label[1].GetValue()] = m.Gauge.GetValue()
	}
	want := map[string]float64{"AcceleratorFunction true": 2, "AcceleratorFunction false": 1, "FpgaRegion true": 0, "FpgaRegion false": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlugins(t *testing.T) {
	registry, _ := registered(t)
	got := map[string]float64{}
	for _, m := range gather(t, registry)["accelerator_device_plugins"].Metric {
		got[m.Label[0].GetValue()] = m.Gauge.GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"true": 2, "false": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Without a cache, the only metric is the version.
func TestWithoutMappings(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.New(registry, "v1.2.3", nil)
	m.Request(metrics.Mapped, time.Second)
	m.CAExpires(time.Now())
	if all := slices.Collect(maps.Keys(gather(t, registry))); !slices.Equal(all, []string{"accelerator_operator_build_info"}) {
		t.Errorf("metrics %q", all)
	}
}

// The table of docs/mappings.md has the metrics of a scrape.
func TestDocs(t *testing.T) {
	registry, m := registered(t)
	if gather(t, registry)["accelerator_webhook_ca_expiry_timestamp_seconds"] != nil {
		t.Error("a replica that is not the leader reports when the CA expires")
	}
	m.CAExpires(time.Unix(1e9, 0))
	all := gather(t, registry)
	const docs = "../../docs/mappings.md"
	const begin, end = "<!-- made in operator/ by go test ./metrics -update -->\n", "<!-- end of what is made -->\n"
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	golden.Section(t, docs, begin, end, table.String())
}
