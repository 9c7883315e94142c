package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory/port"
)

// What the daemon finds by itself has no severity of its own, and the refusal says
// so.
func TestFoundByTheDaemonCannotBeOverruled(t *testing.T) {
	text, err := os.ReadFile("../../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	_, second, _ := strings.Cut(string(text), "## Found by the daemon")
	second, _, _ = strings.Cut(second, "## Rules")
	names := regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)").FindAllStringSubmatch(second, -1)
	if len(names) < 14 {
		t.Fatalf("%d reasons found in the table, want all of them", len(names))
	}
	for _, m := range names {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte("health: {severity: {"+m[1]+": ignored}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		loader := newLoader()
		loader.Config.File = file
		err := loader.Load(func(string) (string, bool) { return "", false })
		if err == nil || !strings.Contains(err.Error(), "found by the daemon itself") && !strings.Contains(err.Error(), "follows the worst reason") {
			t.Errorf("severity of %s: %v, want that it cannot be overruled", m[1], err)
		}
	}
}

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
