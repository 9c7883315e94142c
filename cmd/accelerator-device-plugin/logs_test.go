package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// logFile is a log from a real run.
const logFile = "../../internal/timeline/testdata/hotplug.log"

func TestLogsCommand(t *testing.T) {
	log := must.Value(os.ReadFile(logFile))(t)
	half := filepath.Join(t.TempDir(), "half.log")
	whole := bytes.LastIndexByte(log[:len(log)/2], '\n') + 1
	must.Succeed(t, os.WriteFile(half, log[:whole+100], 0o600))
	const us = "accelerator-device-plugin: "
	for _, test := range []struct {
		name   string
		args   []string
		stdin  string
		code   int
		lines  int    // number of lines on stdout
		stderr string // how stderr starts
	}{
		{"a file", []string{logFile}, "", 0, 47, ""},
		{"stdin", []string{}, string(log), 0, 47, ""},
		{"two files", []string{logFile, logFile}, "", 0, 94, ""},
		{"a file and stdin", []string{logFile, "-"}, "hello\n", 0, 47, us + "skipped 1 line of other programs, or incomplete (first: line 1 of stdin: hello)\n"},
		{"a torn file", []string{half}, "", 0, bytes.Count(log[:whole], []byte("\n")), us + "skipped 1 line of other programs, or incomplete (first: line "},
		{"a device", []string{logFile, "--device", "5e:00.0", "--event", "device.removed"}, "", 0, 2, ""},
		{"JSON", []string{logFile, "-o", "json", "--level", "warn"}, "", 0, bytes.Count(log, []byte(`"level":"warn"`)), ""},
		{"none wanted", []string{logFile, "--since", "0s"}, "", 0, 0, us + "none of 47 lines selected; the log is from 2026-11-22T18:36:28Z to 2026-11-22T18:36:29Z\n"},
		{"console format", []string{"-"}, "Nov 21 20:49:06.668\tinfo\twatcher\tsource opened\t{\"event\": \"source.opened\"}\n", 1, 0,
			us + "skipped 1 line of other programs, or incomplete (first: line 1 of stdin: Nov 21 20:49:06.668\\tinfo"},
		{"an empty log", []string{"-"}, "", 1, 0, us + "found no line of the daemon's log in JSON, want the output of a daemon with --log-format json\n"},
		{"no such device", []string{logFile, "--device", "dfl-port.1", "--event", "device.*"}, "", 0, 0,
			us + "no device dfl-port.1 in this log; there are 3b:00.0, 3b:00.0-p1, 5e:00.0\n"},
		{"summary", []string{logFile, "--summary"}, "", 0, 6, ""},
		{"summary of warnings", []string{logFile, "--summary", "--level", "warn"}, "", 2, 0, us + "summary: found with event or level, want "},
		{"no such file", []string{logFile, "/nonexistent.log", logFile}, "", 1, 47, us + "open /nonexistent.log: no such file or directory\n"},
		{"a directory", []string{"."}, "", 1, 0, us + "read .: is a directory\n"},
		{"nothing", []string{}, "none", 2, 0, us + "stdin: found no log, want FILE arguments, - for stdin, or a log on stdin\nRun 'accelerator-device-plugin logs --help' for usage.\n"},
		{"bad format", []string{logFile, "-o", "yaml"}, "", 2, 0, us + "--output: found \"yaml\", want json\n"},
		{"bad level", []string{logFile, "--level", "loud"}, "", 2, 0, us + "--level: found \"loud\", want one of debug, info, warn, error\n"},
		{"bad since", []string{logFile, "--since", "lunch"}, "", 2, 0, us + "--since: found \"lunch\", want a time (03:12, "},
		{"bad event", []string{logFile, "--event", "[a"}, "", 2, 0, us + "event: found \"[a\", want an event of docs/log-events.md (device.removed), or a pattern of some (device.*)\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := cmdtest.Command(t, append([]string{"logs"}, test.args...)...)
			var out, errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(test.stdin), &out, &errs
			if test.stdin == "none" {
				cmd.Stdin = nil // the null device
			}
			_ = cmd.Run() // its exit code is checked below
			if code, lines := cmd.ProcessState.ExitCode(), strings.Count(out.String(), "\n"); code != test.code || lines != test.lines {
				t.Errorf("exit code %d and %d lines, want %d and %d\n%s%s", code, lines, test.code, test.lines, &out, &errs)
			}
			if !strings.HasPrefix(errs.String(), test.stderr) || test.stderr == "" && errs.Len() > 0 {
				t.Errorf("stderr = %q, want %q first", &errs, test.stderr)
			}
		})
	}
}

// Each line is printed as soon as it arrives, as with kubectl logs -f, and an interrupt ends the command without an
// error.
func TestLogsFollows(t *testing.T) {
	log := must.Value(os.ReadFile(logFile))(t)
	for _, test := range []struct {
		name    string
		args    []string
		at, end string // the output once the line has arrived, and after the interrupt
	}{
		{"lines", nil, "daemon started, version (devel), mode single", ""},
		{"summary", []string{"--summary"}, "", "1 line, 1 daemon start"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := cmdtest.Command(t, append([]string{"logs", "-"}, test.args...)...)
			in := must.Value(cmd.StdinPipe())(t)
			defer in.Close()
			out := must.Value(cmd.StdoutPipe())(t)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			must.Succeed(t, cmd.Start())
			first := log[:bytes.IndexByte(log, '\n')+1]
			must.Value(in.Write(first))(t)
			lines := bufio.NewReader(out)
			if test.at != "" {
				if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, test.at) {
					t.Errorf("line = %q, %v; want %q in it", line, err, test.at)
				}
			} else { // the pipe is full, so the lines before this one have been read
				must.Value(in.Write(bytes.Repeat([]byte("\n"), 256<<10)))(t)
			}
			cmd.Process.Signal(syscall.SIGINT)
			rest, err := io.ReadAll(lines)
			if err != nil || !strings.Contains(string(rest), test.end) || test.end == "" && len(rest) > 0 {
				t.Errorf("after the interrupt: %q, %v; want %q in it", rest, err, test.end)
			}
			compare.NoError(t, "after the interrupt", cmd.Wait())
		})
	}
}

// If the output's reader closes the pipe, as head does, the command succeeds.
func TestLogsIntoHead(t *testing.T) {
	read, write, err := os.Pipe()
	must.Succeed(t, err)
	read.Close()
	defer write.Close()
	for _, args := range [][]string{{"logs", logFile, logFile}, {"logs", "--summary", logFile}} {
		cmd := cmdtest.Command(t, args...)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = write, &errs
		compare.NoError(t, fmt.Sprintf("%q", args), cmd.Run())
		compare.Values(t, fmt.Sprintf("%q: stderr", args), "", errs.String())
	}
}
