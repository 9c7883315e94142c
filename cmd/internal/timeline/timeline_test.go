package timeline_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/cmd/internal/timeline"
	"b-com.com/accelerator-device-plugin/internal/logevent/eventtest"
)

var update = flag.Bool("update", false, "write the golden files")

// read returns the output for a log, and the notes.
func read(t testing.TB, o timeline.Options, log string) (out string, notes []string) {
	t.Helper()
	var b strings.Builder
	reader, err := timeline.New(o, &b)
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Read("the log", strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), reader.Notes()
}

func load(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

func level(l zapcore.Level) *zapcore.Level { return &l }

// The logs are from real runs. The golden files must be readable as a report of each run.
func TestGolden(t *testing.T) {
	for _, test := range []struct {
		name, log string
		o         timeline.Options
	}{
		{"hotplug", "hotplug.log", timeline.Options{}},
		{"hotplug-colour", "hotplug.log", timeline.Options{Colour: true}},
		{"hotplug-device", "hotplug.log", timeline.Options{Filter: timeline.Filter{Devices: []string{"5e:00.0"}}}},
		{"hotplug-summary", "hotplug.log", timeline.Options{Summary: true}},
		{"hotplug-summary-json", "hotplug.log", timeline.Options{Summary: true, JSON: true}},
		{"demo", "demo.log", timeline.Options{}},
		{"demo-summary", "demo.log", timeline.Options{Summary: true}},
		{"debug", "debug.log", timeline.Options{}},
		{"programming", "programming.log", timeline.Options{}}, // of journalctl -t accelerator-fpga
		{"programming-device", "programming.log", timeline.Options{Filter: timeline.Filter{Devices: []string{"5e:00.0"}}}},
		{"debug-warn", "debug.log", timeline.Options{Filter: timeline.Filter{Level: level(zapcore.WarnLevel)}}},
		{"debug-hints", "debug.log", timeline.Options{Filter: timeline.Filter{Events: []string{"hint.*", "scan.*"}}}},
		{"debug-summary", "debug.log", timeline.Options{Summary: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, notes := read(t, test.o, load(t, test.log))
			golden(t, test.name+".golden", out)
			if len(notes) > 0 {
				t.Errorf("notes of a sound log: %q", notes)
			}
		})
	}
}

// The logs in testdata conform to the catalogue of package logevent.
func TestLogsAreAsDeclared(t *testing.T) {
	for _, name := range []string{"hotplug.log", "demo.log", "debug.log", "events.log"} {
		for l := range strings.Lines(load(t, name)) {
			if err := eventtest.Line([]byte(l)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The golden file has the text of each event. events.log has one line of each kind, from the tests of other
// packages, sorted by name.
func TestWords(t *testing.T) {
	out, _ := read(t, timeline.Options{Filter: timeline.Filter{Level: level(zapcore.DebugLevel)}}, load(t, "events.log"))
	golden(t, "events.golden", out)
}

// The text for lines of the log about the log itself.
func TestWordsOfTheLog(t *testing.T) {
	suppressed := entry(noon, "warn", "log.suppressed", `"of":"register.failed","count":41,"lasted_ms":60000,"resource":"r"`)
	toggled := entry(noon, "warn", "log.level", `"old":"info","new":"debug"`)
	dropped := entry(noon, "warn", "log.dropped", `"count":5,"dropped_info":5,"lasted_ms":1500,"error":"disk full"`)
	out, _ := read(t, timeline.Options{}, suppressed+toggled+dropped)
	want := `2026-11-21T12:00:00.000Z  r                     ! 41 lines of register.failed suppressed, there were too many (in 1m0s)
2026-11-21T12:00:00.000Z  -                     ! log level: info → debug
2026-11-21T12:00:00.000Z  -                     ! 5 lines of the log dropped here, its reader stalled or failed: disk full (in 1.50 s)
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A change of the messages in a log changes no summary, and no line of a device.
func TestMessagesAreNotRead(t *testing.T) {
	message := regexp.MustCompile(`"message":"[^"]*"`)
	for _, name := range []string{"hotplug.log", "demo.log", "debug.log"} {
		log := load(t, name)
		for _, o := range []timeline.Options{{Summary: true}, {Filter: timeline.Filter{Events: []string{"device.*", "list.*", "stream.*"}}}} {
			want, _ := read(t, o, log)
			got, _ := read(t, o, message.ReplaceAllString(log, `"message":"reworded"`))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got with other messages):\n%s", name, diff)
			}
		}
	}
}

// The output with -o json is the log itself.
func TestJSONIsTheLog(t *testing.T) {
	log := load(t, "debug.log")
	out, _ := read(t, timeline.Options{JSON: true, Filter: timeline.Filter{Level: level(zapcore.DebugLevel)}}, log)
	if diff := cmp.Diff(log, out); diff != "" {
		t.Errorf("lines (-log +printed):\n%s", diff)
	}
}

func TestGzip(t *testing.T) {
	log := load(t, "demo.log")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	io.WriteString(w, log)
	w.Close()
	want, _ := read(t, timeline.Options{}, log)
	got, _ := read(t, timeline.Options{}, packed.String())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-plain +packed):\n%s", diff)
	}

	reader, err := timeline.New(timeline.Options{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	err = reader.Read("a.gz", bytes.NewReader(packed.Bytes()[:packed.Len()/2]))
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), "a.gz: ") {
		t.Errorf("half of a file: %v, want unexpected EOF in a.gz", err)
	}
}

// Lines are printed before the next read, which may block, as with kubectl logs -f.
func TestPrintsAtOnce(t *testing.T) {
	lines := strings.SplitAfter(strings.TrimSpace(load(t, "demo.log")), "\n")
	var out bytes.Buffer
	var seen []int
	var steps []io.Reader
	for _, l := range lines[:3] {
		steps = append(steps, strings.NewReader(l), readerFunc(func([]byte) (int, error) {
			seen = append(seen, strings.Count(out.String(), "\n"))
			return 0, io.EOF
		}))
	}
	reader, err := timeline.New(timeline.Options{}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Read("stdin", io.MultiReader(steps...)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 2, 3}, seen); diff != "" {
		t.Errorf("lines printed before the next read (-want +got):\n%s", diff)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestErrors(t *testing.T) {
	log := load(t, "demo.log")
	reader, err := timeline.New(timeline.Options{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no more paper")
	err = reader.Read("a.log", io.MultiReader(strings.NewReader(log), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || errors.As(err, new(timeline.OutputError)) {
		t.Errorf("a file that breaks off: %v, want %v, not an OutputError", err, broken)
	}
	reader, err = timeline.New(timeline.Options{}, refusing{broken})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Read("a.log", strings.NewReader(log)); !errors.Is(err, broken) || !errors.As(err, new(timeline.OutputError)) {
		t.Errorf("output refused: %v, want %v as an OutputError", err, broken)
	}
	for _, f := range []timeline.Filter{{Events: []string{"[a"}}, {Events: []string{""}}, {Devices: []string{""}}} {
		if _, err := timeline.New(timeline.Options{Filter: f}, io.Discard); err == nil {
			t.Errorf("filter %+v: no error", f)
		}
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

func TestNotes(t *testing.T) {
	lines := strings.SplitAfter(load(t, "demo.log"), "\n")
	sound := lines[0]
	for _, test := range []struct {
		name, log string
		want      []string
	}{
		{"a sound line", sound, nil},
		{"nothing", "", []string{"the log is empty"}},
		{"empty lines", "\n\n", []string{"skipped 2 lines of other programs", "no line of the daemon's log found"}},
		{"lines of other programs", "hello\n" + sound + "{\"level\":\"info\",\"msg\":\"hi\"}\nI1121 klog.go:1] {}\n\n", []string{"skipped 4 lines of other programs"}},
		{"JSON of other programs", "{\"log\":\"hello\"}\n{\"log\":\"hello\"}\n{\"level\":\"debug\",\"time\":\"2026-11-21T12:00:00Z\",\"msg\":\"hi\"}\n" + sound,
			[]string{"skipped 3 lines of other programs"}},
		{"a torn line", sound + sound[:100] + "\n" + sound + sound[:90],
			[]string{"skipped 2 broken lines (first: line 2 of the log: no complete JSON object: " + sound[:60] + "…)"}},
		{"an invalid time", strings.Replace(sound, "2026-", "2026+", 1) + sound,
			[]string{"skipped 1 broken line (first: line 1 of the log: no time: " +
				strings.Replace(sound, "2026-", "2026+", 1)[:60] + "…)"}},
		{"an unknown level", strings.Replace(sound, "info", "loud", 1) + sound,
			[]string{"skipped 1 broken line (first: line 1 of the log: no level: " +
				strings.Replace(sound, "info", "loud", 1)[:60] + "…)"}},
		{"no level", strings.Replace(sound, `"level":"info",`, "", 1) + sound,
			[]string{"skipped 1 broken line (first: line 1 of the log: no level: " +
				strings.Replace(sound, `"level":"info",`, "", 1)[:60] + "…)"}},
		{"console format", "Nov 21 20:49:06.668\tinfo\twatcher\tsource opened\t{\"source\": \"uevent\", \"event\": \"source.opened\"}\n" + sound,
			[]string{"skipped 1 line of --log-format console: run the daemon with --log-format json to read its log here"}},
		{"back in time", lines[len(lines)-2] + sound,
			[]string{"time went back 1 time (first: by 3.16 s at line 2 of the log): lines are printed in the order of the log"}},
		{"back by less than disorder", lines[1] + sound, nil},
		{"a long line", strings.Repeat("x", 10<<20) + "\n" + sound,
			[]string{"skipped 1 broken line (first: line 1 of the log: longer than 256 KiB: " + strings.Repeat("x", 60) + "…)"}},
		{"a long line at the end", sound + "{" + strings.Repeat("x", 10<<20),
			[]string{"skipped 1 broken line (first: line 2 of the log: longer than 256 KiB: {" + strings.Repeat("x", 59) + "…)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, notes := read(t, timeline.Options{}, test.log)
			if diff := cmp.Diff(test.want, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
