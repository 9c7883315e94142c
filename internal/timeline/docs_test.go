package timeline_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/timeline"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/picture"
)

const document = "../../docs/logs.md"

func readDocument(t *testing.T) string {
	t.Helper()
	return string(must.Value(os.ReadFile(document))(t))
}

// run returns the output of a command line in the document.
func run(t *testing.T, line string, colour bool) string {
	t.Helper()
	words := strings.Fields(line)
	o := timeline.Options{Colour: colour}
	for i, w := range words[2 : len(words)-1] {
		switch w {
		case "--summary":
			o.Summary = true
		case "--device":
			o.Devices = []string{words[2+i+1]}
		}
	}
	out, _ := read(t, o, hotplug(t))
	return out
}

// examples matches blocks of a command after a dollar sign, and its output.
var examples = regexp.MustCompile(`(?m)^    \$ (accelerator-device-plugin logs .*)\n((?:    .*\n|\n    .*\n)*)`)

// The examples in the document show the output of their commands.
func TestExamples(t *testing.T) {
	text := readDocument(t)
	found := 0
	got := examples.ReplaceAllStringFunc(text, func(block string) string {
		found++
		line := examples.FindStringSubmatch(block)[1]
		shown := "    $ " + line + "\n"
		for l := range strings.Lines(run(t, line, false)) {
			if l != "\n" {
				l = "    " + l
			}
			shown += l
		}
		return shown
	})
	if found < 2 {
		t.Fatalf("%d examples found in %s, want 2", found, document)
	}
	golden.Compare(t, document, got)
}

var jqLine = regexp.MustCompile(`(?m)^    # (.*)\n    (jq .*)$`)

// The jq commands in the document succeed, and print something.
func TestJQ(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed; .ci/run installs it")
	}
	lines := jqLine.FindAllStringSubmatch(readDocument(t), -1)
	if len(lines) < 5 {
		t.Fatalf("%d lines for jq in %s, want all of them", len(lines), document)
	}
	for _, l := range lines {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(l[2], " LOG", " testdata/hotplug.log")).CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Errorf("%s\n%v, printed %q", l[2], err, out)
		}
	}
}

// docs/logs.svg shows the output of two commands on a terminal.
func TestPicture(t *testing.T) {
	var screen []string
	for _, line := range []string{
		"accelerator-device-plugin logs --device 5e:00.0 hotplug.log",
		"accelerator-device-plugin logs --summary hotplug.log",
	} {
		screen = append(screen, "\x1b[1m$ "+line+"\x1b[0m")
		screen = append(screen, strings.Split(strings.TrimSuffix(run(t, line, true), "\n"), "\n")...)
		screen = append(screen, "")
	}
	golden.Compare(t, "../../docs/logs.svg", picture.Terminal("accelerator-device-plugin logs: the story of a device, and a summary", screen[:len(screen)-1]))
}
