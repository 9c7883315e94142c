package event_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/event"
)

var (
	placeholder = regexp.MustCompile(`\{(\w+)(?: [\w ]+)?\}`)
	optional    = regexp.MustCompile(`\[[^][]*\]`)
)

// Each event has a phrase, with fields that the event has. Only in brackets and asides
// are those that a line may lack.
func TestPhrases(t *testing.T) {
	for _, e := range event.Events() {
		phrase := event.Phrase(e.Name)
		if phrase == "" {
			t.Errorf("%s: there is no phrase", e.Name)
		}
		must := append(keys(event.Common()), keys(e.Must)...)
		if slices.Contains(must, "old") && slices.Contains(must, "new") {
			must = append(must, "change")
		}
		may := keys(e.May)
		if slices.Contains(may, "gone") {
			must = append(must, "list")
		}
		text, _, _ := strings.Cut(phrase, " | ")
		for _, m := range placeholder.FindAllStringSubmatch(optional.ReplaceAllString(text, ""), -1) {
			if !slices.Contains(must, m[1]) {
				t.Errorf("%s: a line may lack %s in %q, want it in brackets, or an aside", e.Name, m[1], phrase)
			}
		}
		for _, m := range placeholder.FindAllStringSubmatch(phrase, -1) {
			if !slices.Contains(append(must, may...), m[1]) {
				t.Errorf("%s: there is no field %s, which is in %q", e.Name, m[1], phrase)
			}
		}
		if rest := optional.ReplaceAllString(placeholder.ReplaceAllString(phrase, ""), ""); strings.ContainsAny(rest, "{}[]") {
			t.Errorf("%s: brackets do not match in %q", e.Name, phrase)
		}
	}
	if phrase := event.Phrase("no.event"); phrase != "" {
		t.Errorf("an event that is not declared has the phrase %q", phrase)
	}
}
