package timeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/timeline"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

func newReader(t testing.TB, o timeline.Options, out io.Writer) *timeline.Reader {
	t.Helper()
	return must.Value(timeline.New(o, out))(t)
}

// read returns the output for a log, and the notes.
func read(t testing.TB, o timeline.Options, log string) (out string, notes []string) {
	t.Helper()
	var b strings.Builder
	reader := newReader(t, o, &b)
	must.Succeed(t, reader.Read(t.Context(), "the log", strings.NewReader(log)), reader.Close())
	return b.String(), reader.Notes()
}

// hotplug returns the log of a real run.
func hotplug(t testing.TB) string {
	t.Helper()
	return string(must.Value(os.ReadFile("testdata/hotplug.log"))(t))
}

func level(l zapcore.Level) *zapcore.Level { return &l }

const noon = "2026-11-21T12:00:00.000000000Z"

// entry returns a line of a log.
func entry(at, level, event, fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return `{"level":"` + level + `","time":"` + at + `","message":"it happened","event":"` + event + `"` + fields + "}\n"
}

// each returns the log with each line changed by f, as a tool does.
func each(log string, f func(line string) string) string {
	var b strings.Builder
	for l := range strings.Lines(log) {
		b.WriteString(f(strings.TrimSuffix(l, "\n")) + "\n")
	}
	return b.String()
}

// The golden file must be readable as a report of the run. The log conforms to the catalogue.
func TestGolden(t *testing.T) {
	log := hotplug(t)
	out, notes := read(t, timeline.Options{}, log)
	golden.Compare(t, "testdata/hotplug.golden", out)
	compare.Empty(t, "notes of a sound log", notes)
	for l := range strings.Lines(log) {
		must.Succeed(t, eventtest.Line([]byte(l)))
	}
}

// The messages in a log affect neither the summary nor the lines about devices. The output with -o json is the log
// itself.
func TestLogIsRead(t *testing.T) {
	log := hotplug(t)
	for _, o := range []timeline.Options{{Summary: true}, {Filter: timeline.Filter{Events: []string{"device.*", "list.*", "stream.closed"}}}} {
		want, _ := read(t, o, log)
		got, _ := read(t, o, regexp.MustCompile(`"message":"[^"]*"`).ReplaceAllString(log, `"message":"reworded"`))
		compare.Values(t, "lines with other messages", want, got)
	}
	out, _ := read(t, timeline.Options{JSON: true, Filter: timeline.Filter{Level: level(zapcore.DebugLevel)}}, log)
	compare.Values(t, "lines (-log +printed)", log, out)
}

// The output does not depend on the tool that has passed the log on, except for the pod or host.
func TestPrefixes(t *testing.T) {
	log := hotplug(t)
	want, _ := read(t, timeline.Options{}, log)
	const stamp, name = "2026-11-21T20:49:06.668788295Z ", "accelerator-device-plugin"
	for _, test := range []struct{ name, prefix, origin string }{
		{"none", "", ""},
		{"kubectl --timestamps", stamp, ""},
		{"kubectl --prefix", "[pod/x7k2p/plugin] ", "x7k2p"},
		{"kubectl --prefix --timestamps", "[pod/x7k2p/plugin] " + stamp, "x7k2p"},
		{"a file of a container runtime", stamp + "stderr F ", ""},
		{"journalctl", "Nov 21 20:49:06 node1 " + name + "[4711]: ", "node1"},
		{"journalctl of a host that is a number", "févr. 21 20:49:06 10.0.0.5 " + name + "[4711]: ", "10.0.0.5"},
		{"journalctl -o short-iso-precise", "2026-11-21T20:49:06.668788+00:00 node1 " + name + "[4711]: ", "node1"},
		{"journalctl -o short-monotonic", "[ 1234.567890] node1 " + name + "[4711]: ", "node1"},
		{"journalctl --no-hostname", "Nov 21 20:49:06 " + name + "[4711]: ", ""},
		{"journalctl --no-hostname -o short-iso", "2026-11-21T20:49:06+0000 " + name + "[4711]: ", ""},
		{"journalctl --no-hostname -o short-unix", "1795294146.668788 " + name + "[4711]: ", ""},
		{"something else", "a b c d e f ", ""},
	} {
		want := want
		if test.origin != "" {
			want = each(want, func(l string) string { return l[:26] + test.origin + "  " + l[26:] })
		}
		log := each(log, func(l string) string { return test.prefix + l + "\r" })
		got, notes := read(t, timeline.Options{}, strings.TrimSpace(log))
		if diff := cmp.Diff(want, got); diff != "" || len(notes) > 0 {
			t.Errorf("%s: notes %q, lines (-want +got):\n%s", test.name, notes, diff)
		}
		clean, _ := read(t, timeline.Options{JSON: true}, log)
		compare.Values(t, test.name+": JSON", hotplug(t), clean)
	}
}

func TestErrors(t *testing.T) {
	log, broken := hotplug(t), errors.New("no more paper")
	var out bytes.Buffer
	reader := newReader(t, timeline.Options{}, &out)
	if err := reader.Read(t.Context(), "a.log", io.MultiReader(strings.NewReader(log), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a file that breaks off: %v, want %v", err, broken)
	}
	compare.Equal(t, "lines of a file that breaks off", strings.Count(log, "\n"), bytes.Count(out.Bytes(), []byte("\n")))
	long := strings.NewReader(log + strings.Repeat("x", 2<<20))
	compare.Error(t, "a file with a line that is too long", "a.log:", newReader(t, timeline.Options{}, io.Discard).Read(t.Context(), "a.log", long))
	reader = newReader(t, timeline.Options{}, refusing{broken})
	compare.ErrorIs(t, "output refused", broken, reader.Read(t.Context(), "a.log", strings.NewReader(log)))
	for _, o := range []timeline.Options{
		{Filter: timeline.Filter{Events: []string{"[a"}}}, {Filter: timeline.Filter{Events: []string{"device.gone"}}},
		{Filter: timeline.Filter{Devices: []string{""}}}, {Filter: timeline.Filter{Events: []string{"device.*"}}, Summary: true},
	} {
		compare.Error(t, fmt.Sprintf("%+v", o), "", compare.ErrorOf(timeline.New(o, io.Discard)))
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

func TestNotes(t *testing.T) {
	log := hotplug(t)
	sound, _, _ := strings.Cut(log, "\n")
	added := entry(noon, "info", "device.added", `"device":"d","health":"healthy"`)
	restart := entry(noon, "info", "daemon.started", "") + entry(noon, "info", "device.added", `"device":"e","health":"healthy"`)
	const skipped = " of other programs, or incomplete (first: line 1 of the log: "
	const unseen = "removed while no daemon was running, or not found by the newest daemon: "
	past, future := "2000-01-01", "2100-01-01"
	for _, test := range []struct {
		name, log    string
		f            timeline.Filter
		since, until string
		want         []string
	}{
		{name: "a sound line", log: sound},
		{name: "nothing", want: []string{"found no line of the daemon's log in JSON, want the output of a daemon with --log-format json"}},
		{name: "other programs", log: "hello\x1b\n\n" + sound + "\n{\"msg\":\"hi\"}\n", want: []string{"skipped 2 lines" + skipped + `hello\x1b)`}},
		{name: "a torn line", log: sound[:100] + "\n" + sound, want: []string{"skipped 1 line" + skipped + sound[:60] + ")"}},
		{name: "no time", log: strings.Replace(sound, "2026-", "2026+", 1) + "\n" + sound,
			want: []string{"skipped 1 line" + skipped + strings.Replace(sound, "2026-", "2026+", 1)[:60] + ")"}},
		{name: "an unknown level", log: strings.Replace(sound, "info", "loud", 1) + "\n" + sound,
			want: []string{"skipped 1 line" + skipped + strings.Replace(sound, "info", "loud", 1)[:60] + ")"}},
		{name: "console format", log: "Nov 21 20:49:06.668\tinfo\twatcher\tsource opened\t{\"source\": \"uevent\", \"event\": \"source.opened\"}\n" + sound,
			want: []string{"skipped 1 line" + skipped + `Nov 21 20:49:06.668\tinfo\twatcher\tsource opened\t{"source": "u)`}},
		{name: "no such device", log: log, f: timeline.Filter{Devices: []string{"dfl-port.1\x1b", "3b:00.0"}},
			want: []string{`no device dfl-port.1\x1b in this log; there are 3b:00.0, 3b:00.0-p1, 5e:00.0`}},
		{name: "there are many", f: timeline.Filter{Devices: []string{"x"}},
			log:  each("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", func(n string) string { return strings.ReplaceAll(added, `"d"`, `"d`+n+`"`) }),
			want: []string{"no device x in this log; there are d0, d1, d2, d3, d4, d5, d6, d7, d8, d9", "none of 10 lines selected; the log is from 2026-11-21T12:00:00Z to 2026-11-21T12:00:00Z"}},
		{name: "too late", log: added, since: future, want: []string{"none of 1 line selected; the log is from 2026-11-21T12:00:00Z to 2026-11-21T12:00:00Z"}},
		{name: "too early", log: added, until: past, want: []string{"none of 1 line selected; the log is from 2026-11-21T12:00:00Z to 2026-11-21T12:00:00Z"}},
		{name: "a restart, and one is gone", log: added + restart, want: []string{unseen + "d"}},
		{name: "another one is selected", log: added + restart, f: timeline.Filter{Devices: []string{"e"}}},
		{name: "a restart of another pod", log: "[pod/a/p] " + added + each(restart, func(l string) string { return "[pod/b/p] " + l })},
		{name: "a restart with all", log: added + restart + added},
		{name: "removed before the restart", log: added + entry(noon, "info", "device.removed", `"device":"d"`) + restart},
		{name: "it is held", log: added + restart + entry(noon, "warn", "device.tombstone", `"device":"d"`)},
	} {
		test.f.Since, test.f.Until = bound(t, test.since), bound(t, test.until)
		_, notes := read(t, timeline.Options{Filter: test.f}, test.log)
		compare.Values(t, test.name+": notes", test.want, notes)
	}
}
