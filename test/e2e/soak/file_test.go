package soak_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// What is written can be read, even if the last line was cut off.
func TestFile(t *testing.T) {
	lines := []soak.Line{
		{At: 0.5, Run: &soak.Run{Seed: 1<<64 - 1, Version: "1.0", Began: "2026-01-01T00:00:00Z"}},
		{At: 1, Op: &soak.Op{N: 1, Lane: "pods", Kind: "pod", Target: "p", Args: []string{"r", "1"}, Disturbs: true}},
		{At: 1.0006, Done: &soak.Done{N: 1, Error: "no\nanswer"}},
		{At: 2, Pod: &soak.Pod{Name: "p", UID: "u", Wants: map[string]int{"r": 1}, Phase: "Pending", Scheduled: true, Deleting: true, Why: "<>"}},
		{At: 2, Container: &soak.Container{PID: 1, Pod: "p", UID: "u", Started: 1.00049, Nodes: []string{"120:0"}, Rules: []string{"120:0"}, Ended: true, Seen: 2.00049}},
		{At: 3, Port: &soak.Port{ID: "a", Since: 1.00049, Node: "120:0", AFU: "x", Broken: "b", Cordoned: true, Excluded: true, Unsure: true}},
		{At: 3, Offers: &soak.Offers{Ports: map[string][]string{"r": {"a"}}, Seen: 1.00049, Unread: "x"}},
		{At: 4, Quiet: &soak.Quiet{Since: 1.00049, Agreed: true, Differ: []string{"x"}, Left: []string{"x"}, Waiting: []string{"p"}, Memory: map[string]float64{"d": 1}, Files: map[string]int{"d": 1}}},
		{At: 5, Wrong: &soak.Wrong{Rule: "shared", Text: "x", About: []string{"p"}}},
	}
	var file bytes.Buffer
	w := soak.NewWriter(&file)
	for _, line := range lines {
		if err := w.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if rows := strings.Split(file.String(), "\n"); len(rows) != len(lines)+1 || rows[2] != `{"t":1.001,"done":{"n":1,"error":"no\nanswer"}}` {
		t.Errorf("found:\n%s", file.String())
	}
	file.WriteString(`{"t":6,"done":{"n":`)
	path := filepath.Join(t.TempDir(), "history.jsonl")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := soak.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines[4].Container.Started != 1.00049 {
		t.Error("the caller's line is rounded too")
	}
	lines[2].At = 1.001
	lines[4].Container.Started, lines[4].Container.Seen = 1, 2
	lines[5].Port.Since, lines[6].Offers.Seen, lines[7].Quiet.Since = 1, 1, 1
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := soak.ReadFile(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error: %v", err)
	}
}

func TestReadErrors(t *testing.T) {
	const good = `{"t":1,"done":{"n":1}}` + "\n"
	for _, tt := range []struct{ name, text, want string }{
		{"no JSON", good + "x\n", "line 2: invalid character"},
		{"cut in the middle", good + `{"t":1,` + "\n" + good, "line 2: unexpected EOF"},
		{"unknown field", good + `{"t":1,"done":{"n":1,"m":2}}` + "\n", `line 2: json: unknown field "m"`},
		{"nothing", `{"t":1}` + "\n", "line 1: found 0 fields besides t, want one"},
		{"two", `{"t":1,"done":{"n":1},"run":{"seed":1,"version":"","began":""}}` + "\n", "line 1: found 2 fields besides t, want one"},
		{"two objects", strings.TrimSpace(good) + good, "line 1: found "},
		{"not in order", good + `{"t":0.5,"done":{"n":1}}` + "\n", "line 2: t: found 0.5 after 1, want lines in the order of time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := soak.Read(strings.NewReader(tt.text), func(soak.Line) error { return nil })
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s...", err, tt.want)
			}
		})
	}
	if err := soak.Read(strings.NewReader(good), func(soak.Line) error { return os.ErrClosed }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v of the caller's function, want it back", err)
	}
}

// Whatever can be read is the same after it has been written and read again. It can be checked, described and drawn, no
// matter what it contains.
func FuzzRead(f *testing.F) {
	var file bytes.Buffer
	w := soak.NewWriter(&file)
	for _, line := range history(f, node+`
		1 runs p r=1
		1.1 on p 120:0
		2 port a -
		2.1 port d 120:0 broken
		3 fault 1 kill kubelet
		4 done 1
		4.1 unread
		4.2 offers s=a r=a,b
		5 runs q r=1
		5.1 on q 120:0
		9 off p
		40 quiet waiting=p differ=x left=y memory=d:1 files=d:1`) {
		if err := w.Write(line); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(file.Bytes())
	f.Add([]byte(`{"t":1,"done":{"n":1}}` + "\n" + `{"t":`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var lines, again []soak.Line
		if soak.Read(bytes.NewReader(data), func(line soak.Line) error { lines = append(lines, line); return nil }) != nil {
			return
		}
		var file, page bytes.Buffer
		w := soak.NewWriter(&file)
		for i := range lines {
			lines[i].At = float64(i) // without rounding
			if err := w.Write(lines[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := soak.Read(&file, func(line soak.Line) error { again = append(again, line); return nil }); err != nil || len(again) != len(lines) {
			t.Fatalf("found %d lines, want %d: %v", len(again), len(lines), err)
		}
		lines, wrong := checked(lines)
		for _, w := range wrong {
			if told := soak.Excerpt(lines, w); len(told) == 0 {
				t.Errorf("nothing is told about %v", w)
			}
		}
		if err := soak.Picture(&page, lines); err != nil {
			t.Error(err)
		}
		drawn(t, page.Bytes())
	})
}
