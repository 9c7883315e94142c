package logevent_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

var (
	placeholder = regexp.MustCompile(`\{(\w+)(?: [\w ]+)?\}`)
	optional    = regexp.MustCompile(`\[[^][]*\]`)
)

// Each event has a phrase. The phrase has only fields of the event, and optional fields only in
// brackets and asides.
func TestPhrases(t *testing.T) {
	for _, e := range logevent.Events() {
		phrase := logevent.Phrase(e.Name)
		if phrase == "" {
			t.Errorf("%s: found no phrase, want one", e.Name)
		}
		must := append(keys(logevent.Common()), keys(e.Must)...)
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
				t.Errorf("%s: found the optional field %s in %q, want it in brackets or an aside", e.Name, m[1], phrase)
			}
		}
		for _, m := range placeholder.FindAllStringSubmatch(phrase, -1) {
			if !slices.Contains(append(must, may...), m[1]) {
				t.Errorf("%s: found %s in %q, want a field of the event", e.Name, m[1], phrase)
			}
		}
		if rest := optional.ReplaceAllString(placeholder.ReplaceAllString(phrase, ""), ""); strings.ContainsAny(rest, "{}[]") {
			t.Errorf("%s: found %q, want matching brackets", e.Name, phrase)
		}
	}
	if phrase := logevent.Phrase("no.event"); phrase != "" {
		t.Errorf("phrase of an unknown event: found %q, want none", phrase)
	}
}
