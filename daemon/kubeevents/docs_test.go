package kubeevents_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/test/must"
)

func documentation(t *testing.T) string {
	t.Helper()
	text := must.Value(os.ReadFile("../../docs/events.md"))(t)
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
