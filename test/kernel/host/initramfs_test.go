package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInitramfs(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"init": "I", "daemon": "daemon!", "tool": "T", "runc": "R", "modules/b.ko": "BB", "modules/a.ko": "", "modules/notes": "no", "stories/1.txt": "# one\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options{init: dir + "/init", daemon: dir + "/daemon", tool: dir + "/tool", runc: dir + "/runc", modules: dir + "/modules", stories: dir + "/stories"}
	if err := writeInitramfs(dir+"/out", o); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(dir + "/out")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`init 100755 "I"`, `daemon 100755 "daemon!"`,
		`bin 40755 ""`, `bin/accelerator-fpga 100755 "T"`, `bin/runc 100755 "R"`,
		`modules 40755 ""`, `modules/a.ko 100644 ""`, `modules/b.ko 100644 "BB"`,
		`stories 40755 ""`, `stories/1.txt 100644 "# one\n"`, `TRAILER!!! 0 ""`,
	}
	if diff := cmp.Diff(want, unpack(t, raw)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	o.stories = dir + "/none"
	if err := writeInitramfs(dir+"/out", o); err == nil || !strings.Contains(err.Error(), "none/*.txt: found no file") {
		t.Errorf("without stories: %v", err)
	}
}

// unpack returns the entries of an archive: name, mode and content.
func unpack(t *testing.T, raw []byte) (entries []string) {
	t.Helper()
	aligned := func(n int) int { return (n + 3) &^ 3 }
	for at := 0; at < len(raw); {
		var field [13]int
		if !bytes.HasPrefix(raw[at:], []byte("070701")) {
			t.Fatalf("no header at %d", at)
		}
		for i := range field {
			if _, err := fmt.Sscanf(string(raw[at+6+8*i:at+14+8*i]), "%08x", &field[i]); err != nil {
				t.Fatal(err)
			}
		}
		mode, size, length := field[1], field[6], field[11]
		content := aligned(at + 110 + length)
		entries = append(entries, fmt.Sprintf("%s %o %q", raw[at+110:at+110+length-1], mode, raw[content:content+size]))
		at = aligned(content + size)
	}
	return entries
}
