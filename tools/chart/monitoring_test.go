package chart_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/test/must"
)

// files are the files that a template includes unchanged, with their indentation there.
var files = map[string]int{"files/alerts.yaml": 2, "files/dashboard.json": 4}

// crds matches a document with a CRD.
var crds = regexp.MustCompile(`(?ms)^(# Source: [^\n]*/crds\.yaml\n).*?(^---\n|\z)`)

// without replaces the contents of files and CRDs by their paths, so that golden files stay readable.
func without(t *testing.T, manifests string) string {
	for file, width := range files {
		indent := strings.Repeat(" ", width)
		text := indent + strings.ReplaceAll(strings.TrimSuffix(read(t, plugin.dir+"/"+file), "\n"), "\n", "\n"+indent)
		manifests = strings.ReplaceAll(manifests, text, indent+"("+file+")")
	}
	return crds.ReplaceAllString(manifests, "${1}(a file of files/crds)\n$2")
}

// configMap returns the ConfigMap that has the key.
func configMap(t *testing.T, all []runtime.Object, key string) *corev1.ConfigMap {
	t.Helper()
	for _, o := range all {
		if c, ok := o.(*corev1.ConfigMap); ok && c.Data[key] != "" {
			return c
		}
	}
	t.Fatalf("no ConfigMap has %s", key)
	return nil
}

const monitored = "podMonitor: {enabled: true}\nprometheusRule: {enabled: true}\ndashboard: {enabled: true}\n"

// Helm does not interpret the braces in the alerts: the object equals the file.
func TestPrometheusRule(t *testing.T) {
	var want monitoringv1.PrometheusRuleSpec
	must.Succeed(t, yaml.UnmarshalStrict([]byte(read(t, "../../deploy/prometheus/alerts.yaml")), &want))
	got := only[*monitoringv1.PrometheusRule](t, objects(t, plugin.rendered(t, monitored)))
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("rules (-file +object):\n%s", diff)
	}
	got = only[*monitoringv1.PrometheusRule](t, objects(t, plugin.rendered(t, monitored, "--set", "prometheusRule.docsURL=https://wiki.example.com/docs/")))
	for _, group := range got.Spec.Groups {
		for _, rule := range group.Rules {
			want := ""
			if rule.Alert != "" {
				want = "https://wiki.example.com/docs/alerts.md#" + strings.ToLower(rule.Alert)
			}
			if _, old := rule.Annotations["runbook"]; rule.Annotations["runbook_url"] != want || old {
				t.Errorf("%s: annotations %q, want runbook_url %q and no runbook", rule.Alert, rule.Annotations, want)
			}
		}
	}
	if text := got.Spec.Groups[0].Rules[0].Annotations["summary"]; !strings.Contains(text, "{{ $labels.device }}") {
		t.Errorf("summary %q, want {{ $labels.device }} in it", text)
	}
}

func TestDashboard(t *testing.T) {
	got := configMap(t, objects(t, plugin.rendered(t, monitored)), "accelerator-device-plugin.json")
	want := strings.TrimSuffix(read(t, "../../deploy/grafana/dashboard.json"), "\n")
	if diff := cmp.Diff(want, got.Data["accelerator-device-plugin.json"]); diff != "" {
		t.Errorf("dashboard (-file +object):\n%s", diff)
	}
	if !json.Valid([]byte(got.Data["accelerator-device-plugin.json"])) || got.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v, or invalid JSON; want the label grafana_dashboard=1", got.Labels)
	}
}

// Only scrapers can connect, and without scrapers no peer.
func TestNetworkPolicy(t *testing.T) {
	for _, tt := range []struct {
		name, values string
		from         int
	}{
		{"no scraper", "", 0},
		{"PodMonitor", "podMonitor: {enabled: true}", 1},
		{"scrapers without PodMonitor", "scrapers: [{podSelector: {}}, {ipBlock: {cidr: 192.0.2.0/24}}]", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ingress := only[*networkingv1.NetworkPolicy](t, objects(t, plugin.rendered(t, tt.values))).Spec.Ingress
			from := 0
			for _, rule := range ingress {
				from += len(rule.From)
				if len(rule.From) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port.StrVal != "http" {
					t.Errorf("a rule allows more than scrapers at the port http: %v", rule)
				}
			}
			if from != tt.from {
				t.Errorf("%d peers, want %d: %v", from, tt.from, ingress)
			}
		})
	}
}
