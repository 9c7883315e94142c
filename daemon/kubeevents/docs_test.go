package kubeevents_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documentedReasons returns the reasons that have a row in docs/events.md, sorted.
func documentedReasons(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(Device[A-Za-z]+)`").FindAllStringSubmatch(documentation(t), -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}
