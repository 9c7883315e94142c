package chart_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// files are the files that a template includes unchanged, with their indentation there.
var files = map[string]int{"files/alerts.yaml": 2, "files/dashboard.json": 4}

// crds matches a document with a CRD.
var crds = regexp.MustCompile(`(?ms)^(# Source: [^\n]*/crds\.yaml\n).*?(^---\n|\z)`)

// comments matches a comment. The chart's output has none in the text of a ConfigMap.
var comments = regexp.MustCompile(`(?m)^ *#( .*)?\n`)

// without replaces the contents of files and CRDs by their paths, and removes comments, so that golden files stay readable.
func without(t *testing.T, manifests string) string {
	for file, width := range files {
		indent := strings.Repeat(" ", width)
		text := indent + strings.ReplaceAll(strings.TrimSuffix(read(t, plugin.dir+"/"+file), "\n"), "\n", "\n"+indent)
		manifests = strings.ReplaceAll(manifests, text, indent+"("+file+")")
	}
	manifests = crds.ReplaceAllString(manifests, "${1}(a file of files/crds)\n$2")
	return comments.ReplaceAllStringFunc(manifests, func(line string) string {
		if strings.HasPrefix(line, "# Source: ") {
			return line
		}
		return ""
	})
}

// configMap returns the ConfigMap that has the key.
func configMap(t *testing.T, all []runtime.Object, key string) *corev1.ConfigMap {
	t.Helper()
	found := every[*corev1.ConfigMap](all)
	i := slices.IndexFunc(found, func(c *corev1.ConfigMap) bool { return c.Data[key] != "" })
	if i < 0 {
		t.Fatalf("no ConfigMap has %s", key)
	}
	return found[i]
}

const monitored = "podMonitor: {enabled: true}\nprometheusRule: {enabled: true}\ndashboard: {enabled: true}\n"

// Helm does not interpret the braces in the alerts: the object equals the file.
func TestPrometheusRule(t *testing.T) {
	var want monitoringv1.PrometheusRuleSpec
	must.Succeed(t, yaml.UnmarshalStrict([]byte(read(t, "../../deploy/prometheus/alerts.yaml")), &want))
	got := only[*monitoringv1.PrometheusRule](t, objects(t, plugin.rendered(t, monitored)))
	compare.Values(t, "rules", want, got.Spec)
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
	compare.Contains(t, "summary", "{{ $labels.device }}", got.Spec.Groups[0].Rules[0].Annotations["summary"])
}

func TestDashboard(t *testing.T) {
	got := configMap(t, objects(t, plugin.rendered(t, monitored)), "accelerator-device-plugin.json")
	want := strings.TrimSuffix(read(t, "../../deploy/grafana/dashboard.json"), "\n")
	compare.Equal(t, "dashboard", want, got.Data["accelerator-device-plugin.json"])
	compare.Equal(t, "valid JSON", true, json.Valid([]byte(want)))
	compare.Equal(t, "label grafana_dashboard", "1", got.Labels["grafana_dashboard"])
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
