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
	for _, tc := range []struct{ name, text, want string }{
		{"no title", "start\n", "s:1: found no title, want a comment"},
		{"no such verb", "# t\njump\n", "s:2: jump: found no such verb, want one of assign-port, begin,"},
		{"too few", "# t\nplug c0\n", "s:2: plug: found 1 arguments, want 3"},
		{"too many", "# t\nend now\n", "s:2: end: found 1 arguments, want 0"},
		{"sandbox", "# t\nstart as king\n", `sandbox: found "king", want one of root, pod`},
		{"flag", "# t\nstart --mode pool\n", `found "--mode", want --FLAG=VALUE`},
		{"signal", "# t\nsignal KILL\n", `"KILL", want one of STOP`},
		{"count", "# t\ncycle 0 c0 a10 rp0\n", `"0", want a number`},
		{"duration", "# t\nquiet 5\n", `"5", want a duration`},
		{"health", "# t\nexpect 01:00.0 fine\n", `health: found "fine", want one of healthy`},
		{"no device", "# t\nexpect 01:00.0\n", "found 1 arguments, want a device and its health"},
		{"healthy with a reason", "# t\nexpect 01:00.0 healthy port-ap6\n", "reasons of healthy: found [port-ap6]"},
		{"unhealthy without", "# t\nexpect 01:00.0 unhealthy\n", "reasons of unhealthy: found []"},
		{"no time", "# t\nexpect 01:00.0 healthy within=soon\n", `within: found "soon", want a duration`},
		{"number without a device", "# t\nreaches dfl-port.0\n", "s:2: reaches: found 1 arguments, want 2"},
		{"CDI without a device", "# t\ncdi\n", "s:2: cdi: found 0 arguments, want 1 or more"},
		{"field", "# t\nlog device.added 01:00.0\n", `"01:00.0", want FIELD=VALUE`},
		{"AFU", "# t\nprogram dfl-fme.0 d8\n", `"d8", want the 32 hexadecimal digits`},
		{"port to program", "# t\nprogram dfl-fme.0 00112233445566778899aabbccddeeff 4\n", `"4", want the number of a port, 0 to 3`},
		{"port to release", "# t\nrelease-port dfl-fme.0 one\n", `"one", want the number of a port`},
		{"bitstream without AFU", "# t\nbitstream a.gbs\n", "s:2: bitstream: found 1 arguments, want 2 to 4"},
		{"bitstream of an AFU", "# t\nbitstream a.gbs d8\n", `"d8", want 32 hexadecimal digits`},
		{"bitstream elsewhere", "# t\nbitstream /a.gbs 00112233445566778899aabbccddeeff\n", `"/a.gbs", want a name without a directory`},
		{"bitstream cut off", "# t\nbitstream a.gbs 00112233445566778899aabbccddeeff cut=0\n", `"cut=0", want a number of bytes`},
		{"environment", "# t\ncontainer 01:00.0 FPGA_AFU_1\n", `"FPGA_AFU_1", want NAME=VALUE`},
		{"command", "# t\nbegin a daemon x\n", `"daemon", want tool or container`},
		{"environment of a command", "# t\nbegin a container 01:00.0 FPGA_AFU_1\n", `"FPGA_AFU_1", want NAME=VALUE`},
		{"kill", "# t\nkill a init\n", `"init", want hook`},
		{"end of a command", "# t\nended a well\n", `"well", want one of ok, failed, killed`},
		{"unbind", "# t\nunbind 0000:01:00.0 now\n", `"now", want held`},
		{"virtual functions", "# t\nvfs 0000:01:00.0 5\n", `"5", want a number of virtual functions, 0 to 4`},
		{"virtual functions of a container", "# t\nvfs 0000:01:00.0 0 now\n", `"now", want held`},
		{"PCIe error", "# t\ninject 0000:01:00.0 bad\n", `"bad", want one of correctable, nonfatal, fatal`},
		{"use", "# t\nuse 0000:01:00.0 group\n", `"group", want cdev`},
		{"rule", "# t\nrule example.com/a vfio\n", `"vfio", want KEY=VALUE`},
		{"costs without a card", "# t\ncosts 5\n", "s:2: costs: found 1 arguments, want 4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := story.Parse("s", tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestPort(t *testing.T) {
	for line, want := range map[string]int{
		"program dfl-fme.0 00112233445566778899aabbccddeeff":   0,
		"program dfl-fme.0 00000000000000000000000000000003":   0,
		"program dfl-fme.0 00112233445566778899aabbccddeeff 2": 2,
		"release-port dfl-fme.0 1":                             1,
		"assign-port dfl-fme.0 3":                              3,
	} {
		s, err := story.Parse("s", "# t\n"+line)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Steps[0].Port(); got != want {
			t.Errorf("%s: port %d, want %d", line, got, want)
		}
	}
}

func TestBitstream(t *testing.T) {
	const afu, interfaceID = "00112233445566778899aabbccddeeff", "9346116d4e4cb66ea1cbe92e1e1f8f5e"
	for line, want := range map[string]story.Bitstream{
		"bitstream a.gbs " + afu:                                {File: "a.gbs", AFU: afu, Interface: "69528db6eb31577a8c3668f9faa081f6"},
		"bitstream a.gbs " + afu + " cut=5":                     {File: "a.gbs", AFU: afu, Interface: "69528db6eb31577a8c3668f9faa081f6", Cut: 5},
		"bitstream b.gbs " + afu + " " + interfaceID + " cut=5": {File: "b.gbs", AFU: afu, Interface: interfaceID, Cut: 5},
	} {
		s, err := story.Parse("s", "# t\n"+line)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Steps[0].Bitstream(); got != want {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
}

// Every story can be parsed, starts the daemon and has an expectation.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("../stories/*.txt")
	further, ferr := filepath.Glob("../stories/*/*.txt")
	files = append(files, further...)
	if err := errors.Join(err, ferr); err != nil || len(files) == 0 {
		t.Fatalf("../stories: found %d stories, %v; want at least one", len(files), err)
	}
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
		verbs := map[string]bool{}
		for _, step := range s.Steps {
			verbs[step.Verb] = true
		}
		if !verbs["start"] || !verbs["expect"] {
			t.Errorf("%s: found start %v, expect %v, want both", file, verbs["start"], verbs["expect"])
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
			if step.Verb == "bitstream" && step.Bitstream().File != step.Args[0] {
				t.Errorf("%s: %+v", step, step.Bitstream())
			}
			if step.Verb == "expect" && step.Args[0] != story.Sysfs {
				if _, err := story.ParseExpectation(step.Args); err != nil {
					t.Errorf("%s: %v", step, err)
				}
			}
		}
	})
}
