package deviceplugin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/eventtest"
)

// compare compares the log with the golden file. With -update it writes the golden file if it
// differs, and raw, which keeps the unchanged lines of that run for other tests.
func (s *story) compare(golden, raw string) {
	s.t.Helper()
	got := s.text()
	want, err := os.ReadFile(golden)
	if *update && string(want) != got {
		s.do(os.WriteFile(golden, []byte(got), 0o644))
		s.do(os.WriteFile(raw, []byte(s.onAnyNode(s.log.String())), 0o644))
		return
	}
	s.do(err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		s.t.Errorf("log (-want +got), see -update:\n%s", diff)
	}
}

// onAnyNode replaces the paths of the test by those of a real node.
func (s *story) onAnyNode(text string) string {
	return strings.NewReplacer(s.dir+"/kubelet", "/var/lib/kubelet/device-plugins", s.dir+"/", "/").Replace(text)
}

// text returns the story step by step, without the values that differ from run to run.
func (s *story) text() string {
	var b strings.Builder
	text := s.log.String()
	for i, step := range s.steps {
		until := len(text)
		if i+1 < len(s.steps) {
			until = s.steps[i+1].since
		}
		fmt.Fprintf(&b, "# %s\n", step.what)
		var lines []line
		for text := range strings.Lines(s.onAnyNode(text[step.since:until])) {
			var l line
			s.do(eventtest.Line([]byte(text)))
			s.do(json.Unmarshal([]byte(text), &l))
			lines = append(lines, l)
		}
		for _, l := range inOrder(lines) {
			fmt.Fprintln(&b, l)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// line is one line of the log.
type line map[string]any

// inOrder sorts lines of different goroutines into the order of the story: decisions before their
// effects. Whether the kernel allows uevents depends on the machine.
func inOrder(lines []line) []line {
	lines = oneList(slices.DeleteFunc(lines, func(l line) bool { return l["source"] == "uevent" }))
	rank := func(l line) int {
		switch {
		case strings.HasPrefix(l["event"].(string), "daemon.stop"):
			return 3
		case l["event"] == "device.held":
			return 2
		case l["logger"] == "server":
			return 1
		}
		return 0
	}
	slices.SortStableFunc(lines, func(a, b line) int { return rank(a) - rank(b) })
	registered := slices.IndexFunc(lines, func(l line) bool { return l["event"] == "resource.registered" })
	opened := slices.IndexFunc(lines, func(l line) bool { return l["event"] == "stream.opened" })
	if opened >= 0 && opened < registered {
		l := lines[registered]
		lines = slices.Insert(slices.Delete(lines, registered, registered+1), opened, l)
	}
	return lines
}

// oneList merges the lists that are sent in a step into one with all changes. Whether a list before the last one
// is sent or skipped depends on microseconds.
func oneList(lines []line) []line {
	var news []string
	last := -1
	for i, l := range lines {
		if l["event"] != "list.sent" {
			continue
		}
		last = i
		devices, _ := l["devices"].([]any)
		for _, d := range devices {
			news = append(news, d.(string))
		}
	}
	if len(news) > 0 {
		slices.Sort(news)
		lines[last]["devices"] = slices.Compact(news)
	}
	for i := last - 1; i >= 0; i-- {
		if lines[i]["event"] == "list.sent" {
			lines = slices.Delete(lines, i, i+1)
		}
	}
	return lines
}

// String returns the line with its fields in the order of their names, without those that differ
// from run to run.
func (l line) String() string {
	text := fmt.Sprintf("%-4s  %-19s", l["level"], l["event"])
	for _, key := range slices.Sorted(maps.Keys(l)) {
		value := l[key]
		switch {
		case slices.Contains([]string{"level", "event", "time", "logger", "message"}, key):
			continue
		case key == "latency_ms": // missing if a read that was in progress found the change
			continue
		case strings.HasSuffix(key, "_ms") || slices.Contains([]string{"pid", "rev", "socket", "version"}, key):
			value = "…"
		}
		text += fmt.Sprintf(" %s=%v", key, value)
	}
	return text
}
