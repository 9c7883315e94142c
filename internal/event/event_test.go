package event_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/logs.md knows every event and every field that is declared here, and no
// event that is not.
func TestDocumentation(t *testing.T) {
	source, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, m := range regexp.MustCompile(`name\("([a-z._]+)"\)`).FindAllStringSubmatch(string(source), -1) {
		declared[m[1]] = true
		if !strings.Contains(string(text), "`"+m[1]+"`") {
			t.Errorf("docs/logs.md does not know the event %s", m[1])
		}
	}
	if len(declared) < 30 {
		t.Fatalf("found %d events in event.go, want all of them", len(declared))
	}
	table := string(text)[strings.Index(string(text), "|---"):]
	for _, m := range regexp.MustCompile("`([a-z]+\\.[a-z]+)`").FindAllStringSubmatch(table, -1) {
		if !declared[m[1]] {
			t.Errorf("docs/logs.md knows an event %s that is not declared", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?:zap\.\w+|text|list)\("([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		if m[1] != "event" && !strings.Contains(string(text), m[1]) {
			t.Errorf("docs/logs.md does not know the field %s", m[1])
		}
	}
}
