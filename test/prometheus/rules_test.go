package prometheus_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const (
	rulesFile      = "../../deploy/prometheus/alerts.yaml"
	rulesTestsFile = "../../deploy/prometheus/alerts_test.yaml"
)

// alertRule is one of the file.
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
			Name  string
			Rules []alertRule
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, rulesFile)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("%d groups, want one with rules", len(file.Groups))
	}
	return file.Groups[0].Rules
}

// promtool takes the rules, and its unit tests of them pass.
func TestPromtool(t *testing.T) {
	t.Parallel()
	t.Log(said(t, *tool, "check", "rules", rulesFile))
	t.Log(said(t, *tool, "test", "rules", rulesTestsFile))
}

// Each alert is expected to fire in a unit test.
func TestEachAlertIsTested(t *testing.T) {
	tests := read(t, rulesTestsFile)
	for _, rule := range alertRules(t) {
		if !strings.Contains(tests, `alertname="`+rule.Alert+`"`) {
			t.Errorf("%s fires in no unit test", rule.Alert)
		}
	}
}

// Each alert says what somebody needs who is woken by it, and is in the manual.
func TestAlertsExplainThemselves(t *testing.T) {
	manual := read(t, "../../docs/monitoring.md")
	for _, rule := range alertRules(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
				t.Errorf("severity %q", rule.Labels["severity"])
			}
			for _, key := range []string{"summary", "description", "runbook"} {
				if rule.Annotations[key] == "" {
					t.Errorf("no %s", key)
				}
			}
			if diff := cmp.Diff("docs/monitoring.md#"+strings.ToLower(rule.Alert), rule.Annotations["runbook"]); diff != "" {
				t.Errorf("runbook (-want +got):\n%s", diff)
			}
			if !strings.Contains(manual, "\n### "+rule.Alert+"\n") {
				t.Error("docs/monitoring.md has no such section")
			}
			for _, file := range regexp.MustCompile(`docs/\w+\.md`).FindAllString(rule.Annotations["description"], -1) {
				if _, err := os.Stat("../../" + file); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// An event that a description tells to look for in the log is one of the log.
func TestAlertsNameEventsOfTheLog(t *testing.T) {
	log := read(t, "../../docs/logs.md")
	event := regexp.MustCompile(`\b(device|scan|read|source|register|kubelet|socket|cdi|allocate|uevent|holders|config)\.[a-z]+\b`)
	for _, rule := range alertRules(t) {
		for _, name := range event.FindAllString(rule.Annotations["description"], -1) {
			if !strings.Contains(log, "`"+name+"`") {
				t.Errorf("%s: docs/logs.md has no event %s", rule.Alert, name)
			}
		}
	}
}

// faster makes minutes seconds, and an hour a minute: in how long an alert waits and
// in how far it looks back.
func faster(rules string) string {
	rules = regexp.MustCompile(`\b1h\b`).ReplaceAllString(rules, "60m")
	return regexp.MustCompile(`(for: |\[)(\d+)m\b`).ReplaceAllString(rules, "${1}${2}s")
}

func TestFaster(t *testing.T) {
	const slow, want = "expr: increase(x[10m]) > 1\nfor: 1h # 5 minutes\n", "expr: increase(x[10s]) > 1\nfor: 60s # 5 minutes\n"
	if diff := cmp.Diff(want, faster(slow)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
