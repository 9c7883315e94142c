package kubeevents_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
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

// documented checks that each message in docs/events.md is among these, except for times.
func documented(t *testing.T, events []string) {
	t.Helper()
	times := regexp.MustCompile(`[0-9]{4}-[0-9T:-]+Z|after [0-9ms]+`)
	written := times.ReplaceAllString(strings.Join(events, "\n"), "T")
	messages := regexp.MustCompile(`(Normal|Warning) +(Device[A-Za-z]+) .*?(FPGA device .*)`).FindAllStringSubmatch(documentation(t), -1)
	if len(messages) != 5 {
		t.Errorf("docs/events.md: found %d messages, want 5", len(messages))
	}
	for _, m := range messages {
		want := times.ReplaceAllString(m[3], "T")
		if !slices.ContainsFunc(strings.Split(written, "\n"), func(e string) bool {
			return strings.Contains(e, " "+m[1]+" "+m[2]+" x") && strings.HasSuffix(e, " "+want)
		}) {
			t.Errorf("docs/events.md: found %s %s %s, want a message of the test", m[1], m[2], want)
		}
	}
}
