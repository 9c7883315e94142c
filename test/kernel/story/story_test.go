package story_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

func TestParse(t *testing.T) {
	text := "# A card comes.\n\n# why\nstart as pod --log-level=debug\n  plug c0 a10 rp0\nexpect 01:00.0 degraded b a ... afu=d8\nquiet 300ms\n"
	got, err := story.Parse("in", text)
	if err != nil {
		t.Fatal(err)
	}
	want := story.Story{Name: "in", Title: "A card comes.", Steps: []story.Step{
		{Line: 4, Verb: "start", Args: []string{"as", "pod", "--log-level=debug"}},
		{Line: 5, Verb: "plug", Args: []string{"c0", "a10", "rp0"}},
		{Line: 6, Verb: "expect", Args: []string{"01:00.0", "degraded", "b", "a", "...", "afu=d8"}},
		{Line: 7, Verb: "quiet", Args: []string{"300ms"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"start\n":                                            "s:1: found no title, want a comment",
		"# t\njump\n":                                        "s:2: jump: found no such verb, want one of assign-port, begin,",
		"# t\nplug c0\n":                                     `s:2: plug: found "c0", want CARD MODEL SLOT`,
		"# t\nend now\n":                                     `s:2: end: found "now", want `,
		"# t\nstart as king\n":                               "SANDBOX is root|pod|",
		"# t\nstart --mode pool\n":                           `found "--mode pool", want [as SANDBOX] [--FLAG=VALUE …]`,
		"# t\nsignal KILL\n":                                 `"KILL", want STOP|CONT|HUP`,
		"# t\ncycle 0 c0 a10 rp0\n":                          "N is [1-9]",
		"# t\nquiet 5\n":                                     `"5", want DURATION`,
		"# t\nexpect 01:00.0 fine\n":                         `health: found "fine", want one of healthy`,
		"# t\nexpect 01:00.0\n":                              "found 1 arguments, want a device and its health",
		"# t\nexpect 01:00.0 healthy port-ap6\n":             "reasons of healthy: found [port-ap6]",
		"# t\nexpect 01:00.0 unhealthy\n":                    "reasons of unhealthy: found []",
		"# t\nexpect 01:00.0 healthy within=soon\n":          `within: found "soon", want a duration`,
		"# t\ncdi\n":                                         `s:2: cdi: found "", want ID [NODE …]`,
		"# t\nlog device.added 01:00.0\n":                    "want EVENT [FIELD=VALUE …]",
		"# t\nprogram dfl-fme.0 d8\n":                        "AFU is [0-9a-f]{32}",
		"# t\nprogram f 00112233445566778899aabbccddeeff 4":  "PORT is [0-3]",
		"# t\nbitstream /a 00112233445566778899aabbccddeeff": "FILE is [^/]+",
		"# t\nbitstream a.gbs 00112233445566778899aabbccddeeff cut=0\n": "cut=BYTES is cut=[1-9]",
		"# t\nbegin a daemon x\n":        "want COMMAND tool|container|registry ARGUMENT …",
		"# t\nunbind 0000:01:00.0 now\n": "want DEVICE [held]",
		"# t\nvfs 0000:01:00.0 5\n":      "FUNCTIONS is [0-4]",
		"# t\nrecord A/b\n":              "RECORDING is [a-z0-9-]+",
	} {
		if _, err := story.Parse("s", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

// parsed returns the stories in a directory and its subdirectories, by file name.
func parsed(t *testing.T, dir string) map[string]story.Story {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.txt")
	further, ferr := filepath.Glob(dir + "/*/*.txt")
	files = append(files, further...)
	if err := errors.Join(err, ferr); err != nil || len(files) == 0 {
		t.Fatalf("%s: found %d stories, %v; want at least one", dir, len(files), err)
	}
	stories := map[string]story.Story{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if stories[file], err = story.Parse(filepath.Base(file), string(text)); err != nil {
			t.Error(err)
		}
	}
	return stories
}

// Every story can be parsed, starts the daemon and has an expectation.
func TestStories(t *testing.T) {
	for file, s := range parsed(t, "../stories") {
		for _, verb := range []string{"start", "expect"} {
			if !slices.ContainsFunc(s.Steps, func(step story.Step) bool { return step.Verb == verb }) {
				t.Errorf("%s: found no %s, want one", file, verb)
			}
		}
	}
}

// Every story for `make fixtures` can be parsed. It doesn't start a daemon, because the daemon's actions would be
// recorded. It waits for each card that it plugs in, and records under a unique name.
func TestRecordings(t *testing.T) {
	taken := map[string]string{}
	for file, s := range parsed(t, "../recordings") {
		waits := 0 // cards that have been plugged in but that no step has waited for
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
				if before, ok := taken[step.String()]; ok && len(step.Args) > 0 {
					t.Errorf("%s:%d: %s is also recorded by %s", file, step.Line, step, before)
				}
				taken[step.String()] = file
				recorded = recorded || len(step.Args) > 0
			}
		}
		if !recorded {
			t.Errorf("%s: found no recording, want at least one", file)
		}
	}
}

func TestMet(t *testing.T) {
	devices := []story.Device{
		{ID: "01:00.0", Health: "healthy", AFU: "d8424dc4", Nodes: []string{"/dev/dfl-port.0"}, Holders: []string{"ns/job/main"}},
		{ID: "02:00.0", Health: "unhealthy", Reasons: []string{"port-ap6", "fme-ap6"}, AFU: "bfaf"},
		{ID: "04:00.0", Resource: "example.com/region-69528db6", Health: "healthy", Nodes: []string{"/dev/dfl-port.1", "/dev/dfl-fme.1"}},
		{ID: "05:00.1", Health: "healthy", Members: []string{"0000:05:00.0", "0000:05:00.2"}},
	}
	for _, tc := range []struct {
		expect string
		want   bool
	}{
		{"01:00.0 healthy", true},
		{"01:00.0 healthy afu=d842 node=dfl-port.0 holder=ns/job/main", true},
		{"01:00.0 healthy within=1s", true},
		{"01:00.0 healthy afu=bfaf", false},
		{"01:00.0 healthy node=dfl-port.1", false},
		{"01:00.0 healthy holder=ns/other/main", false},
		{"01:00.0 gone", false},
		{"04:00.0 healthy", true},
		{"04:00.0 healthy resource=example.com/region-69", true},
		{"04:00.0 healthy resource=example.com/region-93", false},
		{"04:00.0 gone resource=example.com/region-69", false},
		{"04:00.0 gone resource=example.com/region-93", true},
		{"04:00.0 healthy node=dfl-port.1,dfl-fme.1", true},
		{"04:00.0 healthy node=dfl-fme.1,dfl-port.1", false},
		{"04:00.0 healthy node=dfl-port.1", false},
		{"01:00.0 degraded ...", false},
		{"02:00.0 unhealthy fme-ap6 port-ap6", true},
		{"02:00.0 unhealthy port-ap6", false},
		{"02:00.0 unhealthy port-ap6 ...", true},
		{"02:00.0 unhealthy afu-dead ...", false},
		{"05:00.1 healthy unoffered", true},
		{"04:00.0 healthy unoffered", false},
		{"05:00.1 healthy members=0000:05:00.0,0000:05:00.2", true},
		{"05:00.1 healthy members=0000:05:00.0", false},
		{"03:00.0 gone", true},
		{"03:00.0 healthy", false},
	} {
		e, err := story.ParseExpectation(strings.Fields(tc.expect))
		if err != nil {
			t.Fatalf("%s: %v", tc.expect, err)
		}
		if got := e.Met(devices); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.expect, got, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("# t\nstart as pod --a=b\nexpect 01:00.0 unhealthy x=1 ... afu=\nlog e a=b\nquiet 1s\nbitstream a.gbs 00112233445566778899aabbccddeeff cut=1\nbegin a container b c=d\nprogram f 00112233445566778899aabbccddeeff\n")
	f.Add("cycle -1 a b c")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := story.Parse("f", text)
		if err != nil {
			return
		}
		for _, step := range s.Steps {
			if !slices.Contains(story.Verbs(), step.Verb) {
				t.Errorf("verb: found %q, want one of Verbs", step.Verb)
			}
			if step.Verb == "expect" && step.Args[0] != story.Sysfs {
				if _, err := story.ParseExpectation(step.Args); err != nil {
					t.Errorf("%s: %v", step, err)
				}
			}
		}
	})
}
