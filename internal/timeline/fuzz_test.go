package timeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/timeline"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// New refuses a filter, or returns a reader that works with it.
func FuzzFilter(f *testing.F) {
	log := hotplug(f)
	f.Add("3b:00.0-p1", "device.*", "03:12", "2026-11-21 23:00:00.5")
	f.Add("0001:3B:00.7-p0", "list.sent", "2026-11-21T03:12:00+09:00", "90m")
	f.Add("\x1b", "[a-\\]?", "0001-01-01", "23:59:59.999999999")
	f.Fuzz(func(t *testing.T, device, event, since, until string) {
		begin, err1 := timeline.ParseBound(since, time.Now())
		end, err2 := timeline.ParseBound(until, time.Now())
		filter := timeline.Filter{Devices: []string{device}, Events: []string{event}, Since: begin, Until: end}
		reader, err := timeline.New(timeline.Options{Filter: filter}, io.Discard)
		if errors.Join(err, err1, err2) != nil {
			return
		}
		must.Succeed(t, reader.Read(t.Context(), "the log", strings.NewReader(log)), reader.Close())
		if notes := strings.Join(reader.Notes(), ""); !utf8.ValidString(notes) || strings.ContainsFunc(notes, harmful) {
			t.Errorf("notes %q", notes)
		}
	})
}

// For any input, a reader ends, prints no control sequences, and can read its own JSON output.
func FuzzReader(f *testing.F) {
	lines := strings.SplitAfter(hotplug(f), "\n")
	for i := 0; i+3 < len(lines); i += 3 {
		f.Add([]byte(strings.Join(lines[i:i+3], "")))
	}
	line := strings.TrimSpace(lines[5])
	for _, s := range []string{
		"[pod/a/b] " + line, "[pod/\x1b[2J\xe1/b] " + line, "Nov 21 20:49:06 node1 p[4711]: " + line, "\x1b[31m" + line, line[:50] + "\n" + line,
		strings.Replace(line, "2026", "0000", 1), strings.ReplaceAll(lines[20]+lines[21], `"info"`, `"warn"`),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		printed := func(o timeline.Options, in []byte) string {
			var out strings.Builder
			reader := newReader(t, o, &out)
			_ = reader.Read(t.Context(), "the log", bytes.NewReader(in)) // a line may be too long
			must.Succeed(t, reader.Close())
			all := out.String() + strings.Join(reader.Notes(), "\n")
			if !utf8.ValidString(all) || strings.ContainsFunc(all, harmful) {
				t.Errorf("printed %q", all)
			}
			return out.String()
		}
		all := timeline.Filter{Level: level(zapcore.DebugLevel)}
		printed(timeline.Options{Filter: all}, data)
		printed(timeline.Options{Summary: true}, data)
		printed(timeline.Options{Filter: timeline.Filter{Devices: []string{"3b:00.0"}}}, data)
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
		compare.Values(t, "read again (-first +second)", asJSON, printed(timeline.Options{Filter: all, JSON: true}, []byte(asJSON)))
	})
}
