package watcher_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/watcher"
	"go.uber.org/zap/zapcore"
)

// TestFixtures passes every message that `make fixtures` recorded to the uevent source, as its socket would. The golden
// file next to the recording has one line for each message that isn't filtered out, with the action, subsystem and
// device, and the hint's card and node.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/uevents/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("recordings %v, error %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			got := hints(t, quoted(t, file))
			golden.Compare(t, strings.TrimSuffix(file, ".txt")+".golden", got)
		})
	}
}

// quoted returns the messages in a recording. A recording has a header of comments, followed by one quoted Go string
// per line.
func quoted(t testing.TB, file string) [][]byte {
	t.Helper()
	text := must.Value(os.ReadFile(file))(t)
	var messages [][]byte
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		message, err := strconv.Unquote(line)
		if err != nil {
			t.Fatalf("%s: %s: %v", file, line, err)
		}
		messages = append(messages, []byte(message))
	}
	return messages
}

// hints returns the content of a golden file.
func hints(t *testing.T, messages [][]byte) string {
	t.Helper()
	cfg := simulated(t)
	cfg.Subsystems = []string{"vfio-dev", "drm"} // the vfio and xrt families' subsystems
	h := newRecorder(t, cfg)
	var b strings.Builder
	for i, raw := range messages {
		agree(t, raw)
		at := time.Unix(int64(i), 0)
		h.Receive(raw, false, 0, at, h.hint)
		parsed, err := watcher.Parse(raw)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if len(h.hints) > 1 {
			t.Fatalf("%q: more than one hint: %+v", raw, h.hints)
		}
		if len(h.hints) > 0 {
			fmt.Fprintf(&b, "%-7s %-12s %-21s %s\n", parsed.Action, parsed.Env["SUBSYSTEM"], path.Base(parsed.Devpath), checkHint(t, h, at, parsed))
		}
		h.hints = nil
	}
	return b.String()
}

// checkHint checks the most recent hint and its log line, and returns a summary of both.
func checkHint(t *testing.T, h *recorder, at time.Time, parsed watcher.Parsed) string {
	t.Helper()
	hint := h.hints[0]
	recovery := parsed.Env["ERROR_EVENT"]
	want := watcher.Hint{Card: hint.Card, Source: watcher.SourceUEvent, At: at, RecoveryFailed: recovery == "FAILED_RECOVERY"}
	compare.Values(t, fmt.Sprintf("%s@%s: hint", parsed.Action, parsed.Devpath), want, hint)
	lines := h.lines(zapcore.DebugLevel, "uevent.received")
	if h.logs.TakeAll(); len(lines) != 1 {
		t.Fatalf("%s@%s: %d lines in the log, want 1", parsed.Action, parsed.Devpath, len(lines))
	}
	fields := lines[0].ContextMap()
	logged := map[string]any{
		"event": "uevent.received", "action": parsed.Action, "devpath": parsed.Devpath,
		"subsystem": parsed.Env["SUBSYSTEM"], "seqnum": parsed.Seqnum, "pci": hint.Card,
	}
	text := "card " + hint.Card
	if node := parsed.Env["DEVNAME"]; node != "" {
		logged["node"] = node
		text += ", node " + node
	}
	if recovery != "" {
		logged["reason"] = recovery
		text += ", " + recovery
	}
	if hint.Card == "" {
		text = "every card"
		maps.DeleteFunc(logged, func(key string, _ any) bool { return key == "pci" })
	}
	compare.Values(t, fmt.Sprintf("%s@%s: log", parsed.Action, parsed.Devpath), logged, fields)
	return text
}

// Recordings contain all of the machine's uevents, so the sequence numbers are 1, 2, 3 and so on unless a message was
// lost.
func TestFixturesAreComplete(t *testing.T) {
	files := must.Value(filepath.Glob("testdata/uevents/*.txt"))(t)
	for _, file := range files {
		var numbers, want []uint64
		for i, raw := range quoted(t, file) {
			parsed, err := watcher.Parse(raw)
			if err != nil {
				t.Fatalf("%s: %q: %v", file, raw, err)
			}
			numbers, want = append(numbers, parsed.Seqnum), append(want, uint64(i+1))
		}
		compare.Values(t, file+": numbers", want, numbers)
	}
}

// agree checks that Parse and go-udev return the same result for a kernel message.
func agree(t *testing.T, raw []byte) {
	t.Helper()
	theirs, ok := goudev(raw)
	ours, err := watcher.Parse(raw)
	if !ok || err != nil {
		t.Errorf("%q: go-udev accepts: %v, ours: %v", raw, ok, err)
		return
	}
	for key, value := range ours.Env {
		compare.Equal(t, key+" of go-udev", value, theirs.Env[key])
	}
}
