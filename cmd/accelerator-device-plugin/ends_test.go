package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/sim/demo"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// If the log's reader closes the pipe, the daemon keeps running.
func TestLogReaderCloses(t *testing.T) {
	dir := cmdtest.ShortDir(t)
	node := must.Value(simnode.New(dir))(t)
	read, write, err := os.Pipe()
	must.Succeed(t, err)
	cmd := cmdtest.Command(t, "--log-level", "debug", "--sysfs-root", node.Sys, "--dev-root", node.Dev,
		"--kubelet-dir", filepath.Join(dir, "kubelet"), "--http-address", "127.0.0.1:0")
	cmd.Stderr = write
	must.Succeed(t, cmd.Start())
	defer cmd.Process.Kill()
	write.Close()
	var line struct{ Event, Address string }
	for lines := bufio.NewScanner(read); line.Event != "http.served"; {
		if !lines.Scan() {
			t.Fatal("log ended without http.served")
		}
		must.Succeed(t, json.Unmarshal(lines.Bytes(), &line))
	}
	read.Close()
	must.Succeed(t, node.Plug(cardB)) // this makes it log
	for text := ""; !strings.Contains(text, "5e:00.0"); {
		text, _ = cmdtest.Get(t, "http://"+line.Address+"/devices")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	compare.NoError(t, "after SIGTERM", cmd.Wait())
}

func TestDemoCommand(t *testing.T) {
	for _, tt := range []struct {
		flags []string
		want  string
	}{{nil, "All 11 steps passed"}, {[]string{"--vfio"}, "All 7 steps passed"}, {[]string{"--xrt"}, "All 7 steps passed"}, {[]string{"--aws"}, "All 6 steps passed"}} {
		stdout, stderr, code := cmdtest.Output(t, append([]string{"demo"}, tt.flags...)...)
		if code != 0 || !strings.Contains(stdout, tt.want) || stderr != "" {
			t.Errorf("demo %v: exit code %d\n%s%s", tt.flags, code, stdout, stderr)
		}
	}
}

// The daemon's socket paths are longer than the simulated kubelet's.
func TestDemoInALongDirectory(t *testing.T) {
	dir := t.TempDir() + strings.Repeat("/long", 8)
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	cmd := cmdtest.Command(t, "demo")
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "set TMPDIR to a shorter one") {
		t.Errorf("demo: %v, want exit code 1 and advice\n%s", cmd.ProcessState, out)
	}
}

// The demo fails if a device is advertised again too early.
func TestDemoFailsForShortHold(t *testing.T) {
	cfg := config.Defaults()
	cfg.RecoveryHold = 0
	var out strings.Builder
	err := demo.Run(t.Context(), &out, demo.Options{Resource: cfg.ResourceName, Hold: time.Second}, demoDaemon(cfg))
	if err == nil || !strings.Contains(err.Error(), "it heals") || !strings.Contains(err.Error(), "want at least the hold") {
		t.Errorf("demo without hold = %v, want that it heals too early\n%s", err, out.String())
	}
}

// The demo always removes its directory.
func TestDemoLeavesNothing(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := cmdtest.ShortDir(t)
			cmd := cmdtest.Command(t, "demo", "--interactive")
			cmd.Env = append(cmd.Env, "TMPDIR="+dir)
			stdout := must.Value(cmd.StdoutPipe())(t)
			must.Succeed(t, cmd.Start())
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.Contains(lines.Text(), "a card with two ports is plugged in") {
			}
			cmd.Process.Signal(signal)
			for lines.Scan() {
			}
			cmd.Wait() // returns an error, because the demo was interrupted
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
