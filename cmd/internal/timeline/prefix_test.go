package timeline_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/cmd/internal/timeline"
)

// each returns the log with each line changed by f, as a tool does.
func each(log string, f func(line string) string) string {
	var b strings.Builder
	for l := range strings.Lines(log) {
		b.WriteString(f(strings.TrimSuffix(l, "\n")) + "\n")
	}
	return b.String()
}

func quote(s string) string {
	quoted, _ := json.Marshal(s)
	return string(quoted)
}

const pod = "accelerator-device-plugin-x7k2p"

// The output does not depend on the tool that has passed the log on, except for the pod or host that some
// tools add.
func TestPrefixes(t *testing.T) {
	log := load(t, "demo.log")
	want, _ := read(t, timeline.Options{}, log)
	const stamp = "2026-11-21T20:49:06.668788295Z "
	before := func(prefix string) string { return each(log, func(l string) string { return prefix + l }) }
	for _, test := range []struct{ name, log, origin string }{
		{"none", log, ""},
		{"carriage returns", strings.ReplaceAll(log, "\n", "\r\n"), ""},
		{"no line feed at the end", strings.TrimSpace(log), ""},
		{"kubectl --timestamps", before(stamp), ""},
		{"kubectl --prefix", before("[pod/" + pod + "/plugin] "), pod},
		{"kubectl --prefix --timestamps", before("[pod/" + pod + "/plugin] " + stamp), pod},
		{"stern", before(pod + " plugin "), pod},
		{"stern --all-namespaces --timestamps", before("kube-system " + pod + " plugin " + stamp), pod},
		{"stern --color=always", before("\x1b[38;5;2m" + pod + "\x1b[0m \x1b[38;5;3mplugin\x1b[0m "), pod},
		{"stern -o json", each(log, func(l string) string {
			return fmt.Sprintf(`{"message":%s,"nodeName":"node1","namespace":"kube-system","podName":"%s","containerName":"plugin"}`, quote(l), pod)
		}), pod},
		{"CRI", before(stamp + "stderr F "), ""},
		{"CRI in pieces", each(log, func(l string) string {
			return stamp + "stderr P " + l[:40] + "\n" + stamp + "stdout F hello\n" +
				stamp + "stderr P " + l[40:70] + "\n" + stamp + "stderr F " + l[70:]
		}), ""},
		{"CRI, the last piece empty", each(log, func(l string) string { return stamp + "stderr P " + l + "\n" + stamp + "stderr F " }), ""},
		{"docker", each(log, func(l string) string {
			return fmt.Sprintf(`{"log":%s,"stream":"stderr","time":"2026-11-21T20:49:06Z"}`, quote(l+"\n"))
		}), ""},
		{"docker in pieces", each(log, func(l string) string {
			return fmt.Sprintf("{\"log\":%s,\"stream\":\"stderr\"}\n{\"log\":%s,\"stream\":\"stderr\"}", quote(l[:50]), quote(l[50:]+"\n"))
		}), ""},
		{"docker compose", before("plugin-1  | "), "plugin-1"},
		{"docker compose --timestamps", before("plugin-1  | 2026-11-21T20:49:06.668788Z "), "plugin-1"},
		{"journalctl", before("Nov 21 20:49:06 node1 accelerator-device-plugin[4711]: "), "node1"},
		{"journalctl in another language", before("févr. 21 20:49:06 node1 accelerator-device-plugin[4711]: "), "node1"},
		{"syslog with a priority", before("<30>Nov 21 20:49:06 node1 accelerator-device-plugin[4711]: "), "node1"},
		{"journalctl -o short-iso-precise", before("2026-11-21T20:49:06.668788+00:00 node1 accelerator-device-plugin[4711]: "), "node1"},
		{"journalctl -o short-monotonic", before("[ 1234.567890] node1 accelerator-device-plugin[4711]: "), "node1"},
		{"journalctl -o json", each(log, func(l string) string {
			return fmt.Sprintf(`{"_HOSTNAME":"node1","MESSAGE":%s,"PRIORITY":"6"}`, quote(l))
		}), "node1"},
		{"journalctl -o short-full", before("Sat 2026-11-21 20:49:06 UTC node1 accelerator-device-plugin[4711]: "), "node1"},
		{"journalctl of a host that is a number", before("Nov 21 20:49:06 10.0.0.5 accelerator-device-plugin[4711]: "), "10.0.0.5"},
		{"journalctl --no-hostname", before("Nov 21 20:49:06 accelerator-device-plugin[4711]: "), ""},
		{"journalctl --no-hostname -o short-iso", before("2026-11-21T20:49:06+0000 accelerator-device-plugin[4711]: "), ""},
		{"journalctl --no-hostname -o short-full", before("Sat 2026-11-21 20:49:06 UTC accelerator-device-plugin[4711]: "), ""},
		{"journalctl --no-hostname -o short-monotonic", before("[ 1234.567890] accelerator-device-plugin[4711]: "), ""},
		{"journalctl --no-hostname -o short-delta", before("[ 1234.567890 <    0.000012 >] accelerator-device-plugin[4711]: "), ""},
		{"journalctl --no-hostname -o short-unix", before("1795294146.668788 accelerator-device-plugin[4711]: "), ""},
		{"logcli", before(`2026-11-21T20:49:06Z {app="accelerator-device-plugin", pod="` + pod + `"} `), pod},
		{"logcli, other labels", before(`2026-11-21T20:49:06Z {app="accelerator-device-plugin"} `), ""},
		{"something else", before("a b c d e f "), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := want
			if test.origin != "" {
				want = each(want, func(l string) string { return l[:26] + test.origin + "  " + l[26:] })
			}
			got, notes := read(t, timeline.Options{}, test.log)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			for _, n := range notes {
				if !strings.Contains(test.name, "pieces") || n != "skipped 43 lines of other programs" {
					t.Errorf("note: %s", n)
				}
			}
			// With -o json the output is the original log.
			clean, _ := read(t, timeline.Options{JSON: true}, test.log)
			if diff := cmp.Diff(log, clean); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
		})
	}
}

// The same id on two nodes is two devices. Time goes back only if lines of the same node are out of order.
func TestOrigins(t *testing.T) {
	log := load(t, "demo.log")
	mixed := each(log, func(l string) string {
		return "[pod/a/plugin] " + l + "\n[pod/b-longer/plugin] " + strings.ReplaceAll(l, "20:49:0", "20:48:0")
	})
	out, notes := read(t, timeline.Options{Summary: true}, mixed)
	if len(notes) > 0 {
		t.Errorf("notes: %q", notes)
	}
	var rows [][]string
	for l := range strings.Lines(out) {
		if words := strings.Fields(l); len(words) > 2 && strings.HasPrefix(words[1], "3b") {
			rows = append(rows, words[:5])
		}
	}
	want := [][]string{
		{"a", "3b:00.0", "gone", "2026-11-21T20:49:08Z", "1"}, {"a", "3b:00.0-p1", "gone", "2026-11-21T20:49:08Z", "5"},
		{"b-longer", "3b:00.0", "gone", "2026-11-21T20:48:08Z", "1"}, {"b-longer", "3b:00.0-p1", "gone", "2026-11-21T20:48:08Z", "5"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s\n%s", diff, out)
	}
}

// If an object has a field twice, the last one counts.
func TestFieldTwice(t *testing.T) {
	out, _ := read(t, timeline.Options{}, entry(noon, "info", "device.removed", `"device":"first","device":"last"`))
	if !strings.Contains(out, "last") || strings.Contains(out, "first") {
		t.Errorf("printed %q, want the last device", out)
	}
}

// The missing pieces of a line at the end of a file are not searched in the next file.
func TestPiecesOfTwoFiles(t *testing.T) {
	const stamp = "2026-11-21T20:49:06.668788295Z stderr "
	var out strings.Builder
	reader, err := timeline.New(timeline.Options{}, &out)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(load(t, "demo.log"), "\n")
	torn := stamp + "P " + line[:50] + "\n"
	for _, text := range []string{torn, stamp + "F " + line + "\n" + torn} {
		if err := reader.Read("a file", strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines, want that of the second file:\n%s", n, &out)
	}
	if notes := reader.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "skipped 2 broken lines (first: line ") {
		t.Errorf("notes %q, want two broken lines", notes)
	}
}

func TestUnfinishedPieces(t *testing.T) {
	const stamp = "2026-11-21T20:49:06.668788295Z "
	line, _, _ := strings.Cut(load(t, "demo.log"), "\n")
	const tooLong = "skipped 1 broken line (first: line 17 of the log: longer than 256 KiB: "
	endless := strings.Repeat(stamp+"stderr P "+strings.Repeat("x", 16<<10)+"\n", 100)
	for _, test := range []struct {
		name, log string
		lines     int
		note      string
	}{
		{"the end is missing", stamp + "stderr P " + line + "\n", 0, "skipped 1 broken line (first: line 1 of the log: last piece missing)"},
		{"too long", endless + stamp + "stderr F x\n" + stamp + "stderr F " + line + "\n", 1, tooLong},
		{"too long, and a line of the other stream", endless + stamp + "stdout F " + line + "\n", 1, tooLong},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, notes := read(t, timeline.Options{}, test.log)
			if n := strings.Count(out, "\n"); n != test.lines || len(notes) == 0 || !strings.HasPrefix(notes[0], test.note) {
				t.Errorf("%d lines and notes %q, want %d and %q", n, notes, test.lines, test.note)
			}
		})
	}
}
