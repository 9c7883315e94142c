package timeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/cmd/internal/timeline"
)

// New refuses a filter, or returns a reader that works with it.
func FuzzFilter(f *testing.F) {
	log := load(f, "hotplug.log")
	f.Add("3b:00.0-p1", "device.*", "b-com.com/accelerator", "03:12", "2026-11-21 23:00:00.5")
	f.Add("0001:3B:00.7-p0", "list.sent", "", "2026-11-21T03:12:00+09:00", "90m")
	f.Add("\x1b", "[a-\\]?", "\xff", "0001-01-01", "23:59:59.999999999")
	f.Fuzz(func(t *testing.T, device, event, resource, since, until string) {
		filter := timeline.Filter{Devices: []string{device}, Events: []string{event}, Resource: resource}
		var err error
		if filter.Since, err = timeline.ParseBound(since, time.Now()); err != nil {
			return
		}
		if filter.Until, err = timeline.ParseBound(until, time.Now()); err != nil {
			return
		}
		reader, err := timeline.New(timeline.Options{Filter: filter}, io.Discard)
		if err != nil {
			return
		}
		if err := errors.Join(reader.Read("the log", strings.NewReader(log)), reader.Close()); err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(reader.Notes(), ""); !utf8.ValidString(notes) || strings.ContainsFunc(notes, harmful) {
			t.Errorf("notes %q", notes)
		}
	})
}

// For any input, a reader ends, prints no control sequences, and can read its own JSON output.
func FuzzReader(f *testing.F) {
	const stamp = "2026-11-21T20:49:06.668788295Z "
	lines := strings.SplitAfter(load(f, "hotplug.log"), "\n")
	for i := 0; i+3 < len(lines); i += 3 {
		f.Add([]byte(strings.Join(lines[i:i+3], "")))
	}
	line := strings.TrimSpace(lines[5])
	for _, s := range []string{
		"[pod/a/b] " + line, "pod container " + line, stamp + "stderr P {\n" + stamp + "stderr F " + line[1:],
		`{"log":` + quote(line+"\n") + `,"stream":"stderr"}`, `{"MESSAGE":` + quote(line) + `,"_HOSTNAME":"h"}`,
		"\x1f\x8b\x08", "\x1b[31m" + line, line[:50] + "\n" + line, strings.Replace(line, "2026", "0000", 1),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		printed := func(o timeline.Options, in []byte) string {
			var out strings.Builder
			reader, err := timeline.New(o, &out)
			if err != nil {
				t.Fatal(err)
			}
			_ = reader.Read("the log", bytes.NewReader(in)) // gzip may be broken
			if err := reader.Close(); err != nil {
				t.Fatal(err)
			}
			all := out.String() + strings.Join(reader.Notes(), "\n")
			if !utf8.ValidString(all) || strings.ContainsFunc(all, harmful) {
				t.Errorf("printed %q", all)
			}
			return out.String()
		}
		all := timeline.Filter{Level: level(zapcore.DebugLevel)}
		printed(timeline.Options{Filter: all}, data)
		printed(timeline.Options{Summary: true}, data)
		printed(timeline.Options{Filter: timeline.Filter{Devices: []string{"3b:00.0"}, Resource: "r"}}, data)
		lines := strings.Count(printed(timeline.Options{All: true}, data), "\n")
		if n := strings.Count(printed(timeline.Options{}, data), "\n"); n > lines {
			t.Errorf("%d lines folded are %d", lines, n)
		}
		asJSON := printed(timeline.Options{Filter: all, JSON: true}, data)
		for l := range strings.Lines(asJSON) {
			if !json.Valid([]byte(l)) {
				t.Errorf("no JSON: %q", l)
			}
		}
		if diff := cmp.Diff(asJSON, printed(timeline.Options{Filter: all, JSON: true}, []byte(asJSON))); diff != "" {
			t.Errorf("read again (-first +second):\n%s", diff)
		}
	})
}

// The memory of a reader does not grow with the log, not even with new devices, pods or resources in
// each line, with garbage without line feeds, or with endless pieces.
func TestMemory(t *testing.T) {
	const stamp = "2026-11-21T20:49:06.668788295Z "
	number := 0
	next := func() string { number++; return strings.Repeat("n", 100) + strconv.Itoa(number) }
	device := func() string {
		n := next()
		return entry(noon, "info", "device.health", `"device":"`+n+`","resource":"`+n+`","old":"healthy","new":"unhealthy"`)
	}
	keeps := timeline.Options{Filter: timeline.Filter{Resource: "none"}} // keeps the resource of each device
	summary := timeline.Options{Summary: true}
	for _, test := range []struct {
		name string
		o    timeline.Options
		line func() string
	}{
		{"new devices", keeps, device},
		{"new devices in a summary", summary, device},
		{"new devices, each perhaps at the start of a pull", timeline.Options{}, func() string {
			return strings.NewReplacer(`"level":"info"`, `"level":"warn"`, `"old"`, `"reasons":["no-port"],"old"`).Replace(device())
		}},
		{"... in long lines", timeline.Options{}, func() string {
			long := `"reasons":["no-port"],"a":[` + strings.Repeat(`[],`, 10_000) + `[]],"old"`
			return strings.NewReplacer(`"level":"info"`, `"level":"warn"`, `"old"`, long).Replace(device())
		}},
		{"new pods", summary, func() string {
			return "[pod/" + next() + "/plugin] " + entry(noon, "info", "device.added", `"device":"a"`)
		}},
		{"JSON of other programs", summary, func() string { return `{"a":[` + strings.Repeat(`[],`, 10_000) + "[]]}\n" }},
		{"garbage", summary, func() string { return strings.Repeat("{\"event\":\"", 1000) }},
		{"pieces", summary, func() string { return stamp + "stderr P " + strings.Repeat("{", 1000) + "\n" }},
		{"docker's pieces", keeps, func() string {
			return `{"log":"` + strings.Repeat("x", 1000) + `","stream":"stderr","time":"` + next() + "\"}\n"
		}},
	} {
		reader, err := timeline.New(test.o, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		log, before := &measured{line: test.line, left: 12 << 20}, live()
		if err := reader.Read("the log", log); err != nil {
			t.Fatal(err)
		}
		needed := (log.peak - min(log.peak, before)) >> 10
		t.Logf("%s: %d KiB", test.name, needed)
		if needed > 8<<10 {
			t.Errorf("%s: %d KiB needed for 12 MiB, want 8 MiB at most", test.name, needed)
		}
		runtime.KeepAlive(reader)
	}
}

// The events of devices for which there is no room are counted.
func TestTooManyDevices(t *testing.T) {
	var log strings.Builder
	const most = 10_000
	for i := range most + 7 {
		log.WriteString(entry(noon, "info", "device.added", `"device":"d`+strconv.Itoa(i)+`","health":"healthy"`))
	}
	out, _ := read(t, timeline.Options{Summary: true}, log.String())
	if want := "\nand 7 events of more devices\n"; !strings.HasSuffix(out, want) || strings.Count(out, "healthy") != most {
		t.Errorf("%d devices and %q, want %d and %q", strings.Count(out, "healthy"), out[len(out)-50:], most, want)
	}
}
