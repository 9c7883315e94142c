package prometheus_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const (
	rulesFile      = "../../deploy/prometheus/alerts.yaml"
	rulesTestsFile = "../../deploy/prometheus/alerts_test.yaml"
)

// alertRule is one of the alert rules in rulesFile.
type alertRule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name, Interval string
			Rules          []alertRule
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, rulesFile)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	var rules []alertRule
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) == 0 {
		t.Fatalf("%s: found no rules", rulesFile)
	}
	return rules
}

// promtool accepts the rules, and their unit tests pass.
func TestPromtool(t *testing.T) {
	t.Parallel()
	t.Log(output(t, *tool, "check", "rules", rulesFile))
	t.Log(output(t, *tool, "test", "rules", rulesTestsFile))
}

// Each alert fires in a unit test.
func TestEachAlertIsTested(t *testing.T) {
	tests := read(t, rulesTestsFile)
	for _, rule := range alertRules(t) {
		if !strings.Contains(tests, `alertname="`+rule.Alert+`"`) {
			t.Errorf("%s: found no unit test of %s, want one", rulesTestsFile, rule.Alert)
		}
	}
}

// Each alert has a severity, a summary, a description and an existing runbook.
func TestAlertsExplainThemselves(t *testing.T) {
	manual := read(t, "../../docs/alerts.md")
	for _, rule := range alertRules(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			severity := rule.Labels["severity"]
			row := regexp.MustCompile("(?m)^\\| `" + severity + "` .*$").FindString(manual)
			if !strings.Contains(row, rule.Alert) && (severity != "warning" || row == "") {
				t.Errorf("severity %q: found the row %q in docs/alerts.md, want one with the alert", severity, row)
			}
			for _, key := range []string{"summary", "description", "runbook"} {
				if rule.Annotations[key] == "" {
					t.Errorf("%s: found none, want a text", key)
				}
			}
			if diff := cmp.Diff("docs/alerts.md#"+strings.ToLower(rule.Alert), rule.Annotations["runbook"]); diff != "" {
				t.Errorf("runbook (-want +got):\n%s", diff)
			}
			if !strings.Contains(manual, "\n### "+rule.Alert+"\n") {
				t.Errorf("docs/alerts.md: found no section %s, want one", rule.Alert)
			}
			for _, file := range regexp.MustCompile(`docs/\w+\.md`).FindAllString(rule.Annotations["description"], -1) {
				if _, err := os.Stat("../../" + file); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The events that the descriptions mention are documented.
func TestAlertsNameEventsOfTheLog(t *testing.T) {
	log := read(t, "../../docs/log-events.md")
	event := regexp.MustCompile(`\b(device|scan|read|source|register|kubelet|socket|cdi|allocate|uevent|holders|config|slices|driver|claim|ledger)\.[a-z]+\b`)
	for _, rule := range alertRules(t) {
		for _, name := range event.FindAllString(rule.Annotations["description"], -1) {
			if !strings.Contains(log, "`"+name+"`") {
				t.Errorf("%s: found event %s, want one of docs/log-events.md", rule.Alert, name)
			}
		}
	}
}

// faster divides the rules' times by 60, both in "for" and in ranges: minutes become seconds, and an hour becomes a
// minute.
func faster(rules string) string {
	rules = regexp.MustCompile(`\b1h\b`).ReplaceAllString(rules, "60m")
	return regexp.MustCompile(`(for: |interval: |\[)(\d+)m\b`).ReplaceAllString(rules, "${1}${2}s")
}

func TestFaster(t *testing.T) {
	const slow, want = "interval: 4m\nexpr: increase(x[10m]) > 1\nfor: 1h # 5 minutes\n", "interval: 4s\nexpr: increase(x[10s]) > 1\nfor: 60s # 5 minutes\n"
	if diff := cmp.Diff(want, faster(slow)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
