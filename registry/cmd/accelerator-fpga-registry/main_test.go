package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/doccmd"
	"b-com.com/accelerator-device-plugin/test/must"
)

// An error is one line on stderr. The exit code is 2 for a wrong command line, and otherwise 1.
func TestErrors(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	broken := filepath.Join(t.TempDir(), "broken.gbs")
	must.Succeed(t, os.WriteFile(broken, []byte("\x1b[31m\n"+strings.Repeat("\x00", 2000)), 0o644))
	const ref = "127.0.0.1:1/fpga/nlb"
	for _, test := range []struct {
		line string
		code int
		want string
	}{
		{"", 2, "accelerator-fpga: command: found none (see accelerator-fpga --help)\n"},
		{"pull", 2, "accelerator-fpga pull: REFERENCE: found 0, want one (see accelerator-fpga pull --help)\n"},
		{"pull nlb", 2, "accelerator-fpga pull: found \"nlb\", want REGISTRY/NAME, REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST in lower case (see accelerator-fpga pull --help)\n"},
		{"pull -o yaml " + ref, 2, "accelerator-fpga pull: --output: found \"yaml\", want json (see accelerator-fpga pull --help)\n"},
		{"pull --timeout 0s " + ref, 2, "accelerator-fpga pull: --timeout: found 0s, want more than 0s (see accelerator-fpga pull --help)\n"},
		{"pull --store= " + ref, 2, "accelerator-fpga pull: --store: found \"\", want a directory (see accelerator-fpga pull --help)\n"},
		{"pull --sysfs-root /sys " + ref, 2, "accelerator-fpga pull: unknown flag: --sysfs-root (see accelerator-fpga pull --help)\n"},
		{"push x.gbs", 2, "accelerator-fpga push: FILE and REFERENCE: found 1, want two (see accelerator-fpga push --help)\n"},
		{"push x.gbs " + ref + "@sha256:" + strings.Repeat("a", 64), 2,
			"accelerator-fpga push: found digest sha256:" + strings.Repeat("a", 64) + ", want a tag, because the manifest determines the digest (see accelerator-fpga push --help)\n"},
		{"push none.gbs " + ref, 1, "accelerator-fpga push: stat none.gbs: no such file or directory\n"},
		{"push " + broken + " " + ref, 1, "accelerator-fpga push: " + broken + `: first bytes: found "\x1b[31m\n` + strings.Repeat(`\x00`, 10) + `", want "XeonFPGA\xb7GBSv001" as in a GBS` + "\n"},
		{"pull --store " + t.TempDir() + " " + ref, 1, "accelerator-fpga pull: " + ref + ":latest: dial tcp 127.0.0.1:1: connect: connection refused\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(test.line), &stdout, &stderr)
		compare.Values(t, test.line+": stderr", test.want, stderr.String())
		compare.Equal(t, test.line+": stdout", "", stdout.String())
		compare.Equal(t, test.line+": exit code", test.code, code)
	}
}

func TestShort(t *testing.T) {
	compare.Equal(t, "text", "a; \\x1b[2J", short("a\n\x1b[2J"))
	compare.Equal(t, "long text", strings.Repeat("é", 500)+" …", short(strings.Repeat("é", 600)))
	compare.Equal(t, "text that is cut in a character", "x"+strings.Repeat("é", 499)+" …", short("x"+strings.Repeat("é", 600)))
}

// The help has examples, and the commands in it and in the documents exist. They begin with the name of accelerator-fpga, which
// runs this program.
func TestDocumentedCommands(t *testing.T) {
	const program = "accelerator-fpga"
	found := doccmd.Commands(t, "../../..", program)
	for _, name := range []string{"pull", "push", "keep"} {
		var help bytes.Buffer
		compare.Equal(t, name+" --help", 0, run(t.Context(), []string{name, "--help"}, &help, io.Discard))
		compare.Contains(t, name+" --help", "Examples:\n  accelerator-fpga "+name, help.String())
	}
	found = slices.DeleteFunc(append(found, doccmd.Examples(newRoot(), program)...), func(c doccmd.Command) bool {
		return len(c.Args) == 0 || !slices.Contains([]string{"pull", "push", "keep"}, c.Args[0])
	})
	doccmd.Check(t, 15, found, newRoot)
}

// The progress is one line on a terminal, and otherwise a line every 10 s.
func TestProgress(t *testing.T) {
	for terminal, want := range map[bool]string{
		false: "pull x: 0 % of 4.0 MiB\npull x: 50 % of 4.0 MiB, 0.2 MiB/s\npull x: lost\\x1b: trying again\n",
		true: "\r0 % of 4.0 MiB\x1b[K\r25 % of 4.0 MiB, 0.2 MiB/s\x1b[K\r50 % of 4.0 MiB, 0.2 MiB/s\x1b[K" +
			"\r\x1b[Kpull x: lost\\x1b: trying again\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := newProgress(&out, false, "pull x")
			p.terminal = terminal
			for done := range int64(3) {
				p.show(done<<20, 4<<20)
				p.show(done<<20, 4<<20)
				time.Sleep(6 * time.Second)
			}
			p.log("lost\x1b: trying again")
			p.clear()
			compare.Equal(t, "progress", want, out.String())
		})
	}
	var out bytes.Buffer
	p := newProgress(&out, true, "pull x")
	p.show(1, 2)
	p.log("lost")
	compare.Equal(t, "quiet", "", out.String())
}
