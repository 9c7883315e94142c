package story_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// Every story of `make fixtures` can be parsed; starts no daemon, since its actions would be
// recorded; waits for each card that it plugs; and records under a unique name.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("../recordings/*.txt")
	further, ferr := filepath.Glob("../recordings/*/*.txt")
	files = append(files, further...)
	if err := errors.Join(err, ferr); err != nil || len(files) == 0 {
		t.Fatalf("../recordings: found %d stories, %v; want at least one", len(files), err)
	}
	taken := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := story.Parse(filepath.Base(file), string(text))
		if err != nil {
			t.Error(err)
			continue
		}
		waits := 0 // number of plugged cards that no step has waited for
		recorded := false
		for _, step := range s.Steps {
			switch step.Verb {
			case "start":
				t.Errorf("%s:%d: found start, want no daemon", file, step.Line)
			case "plug":
				waits++
			case "heard":
				waits--
			case "record", "uevents":
				if waits > 0 {
					t.Errorf("%s:%d: found no heard for a plugged card, want one", file, step.Line)
				}
				name := strings.Join(append([]string{step.Verb}, step.Args...), " ")
				if before, ok := taken[name]; ok && len(step.Args) > 0 {
					t.Errorf("%s:%d: %s is also recorded by %s", file, step.Line, name, before)
				}
				taken[name] = file
				recorded = recorded || len(step.Args) > 0
			}
		}
		if !recorded {
			t.Errorf("%s: found no recording, want at least one", file)
		}
	}
}

func TestParseRecording(t *testing.T) {
	_, err := story.Parse("s", "# t\nrecord A/b\n")
	if err == nil || !strings.Contains(err.Error(), `s:2: record: found "A/b", want lower-case letters`) {
		t.Errorf("got %v, want an error with the characters of a name", err)
	}
	for _, verb := range []string{"heard", "record", "uevents"} {
		if !slices.Contains(story.Verbs(), verb) {
			t.Errorf("verbs: found no %s", verb)
		}
	}
}
