package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory/port"
)

// docs/health.md explains every line of the health table, with its severity, and
// invents none.
func TestHealthTableIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "## Found by the daemon")
	severity := map[string]string{} // by reason, as documented
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| (\\w+)").FindAllStringSubmatch(first, -1) {
		name := ""
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			reason := m[1]
			if strings.HasPrefix(reason, "=") {
				reason = name + reason
			}
			name, _, _ = strings.Cut(reason, "=")
			severity[reason] = row[2]
		}
	}
	if len(severity) < 100 {
		t.Fatalf("%d reasons found in the table, want all of them", len(severity))
	}
	for _, row := range port.Rows() {
		if got := severity[row.Name]; got != row.Health.String() {
			t.Errorf("%s (%s) makes a device %s; docs/health.md says %q", row.Name, row.Source, row.Health, got)
		}
		delete(severity, row.Name)
	}
	for reason := range severity {
		t.Errorf("docs/health.md explains %s, which the table does not have", reason)
	}
}
