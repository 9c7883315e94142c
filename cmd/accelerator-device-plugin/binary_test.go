package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestMain(m *testing.M) { os.Exit(cmdtest.Run(m)) }

func TestExitCodes(t *testing.T) {
	noSysfs := []string{`--sysfs-root "/nonexistent": found nothing, want a directory`}
	for _, test := range []struct {
		name string
		args []string
		code int
		says []string // substrings of its output
	}{
		{"help", []string{"--help"}, 0, []string{"Examples:", "--resync-interval"}},
		{"version", []string{"version"}, 0, []string{"accelerator-device-plugin "}},
		{"version as a flag", []string{"--version"}, 0, []string{"accelerator-device-plugin ", "linux/"}},
		{"unknown flag", []string{"--frequency=1"}, 2, []string{"frequency"}},
		{"one dash", []string{"-mode=af"}, 2, []string{"-mode=af; want two dashes: --mode"}},
		{"unknown command", []string{"dance"}, 2, []string{"accelerator-device-plugin: unknown command \"dance\"\n"}},
		{"misspelt command", []string{"devcies"}, 2, []string{"accelerator-device-plugin: ", "did you mean devices?"}},
		{"argument", []string{"devices", "3b:00.0"}, 2, []string{"3b:00.0"}},
		{"bad value", []string{"serve", "--resync-interval=1"}, 2, []string{"resync-interval", "50ms or more"}},
		{"bad value, log for programs", []string{"--resync-interval=1"}, 2, []string{`"event":"daemon.failed"`}},
		{"bad value, log for people", []string{"serve", "--log-format", "console", "--mode=zen"}, 2, []string{"accelerator-device-plugin: ", "Run 'accelerator-device-plugin serve --help'"}},
		{"events without API server", []string{"--events", "--node-name=n", "--sysfs-root=/", "--kubelet-dir=/nonexistent"}, 1,
			[]string{"variable KUBERNETES_SERVICE_HOST: found none", "want --kubeconfig"}},
		{"bad format", []string{"devices", "-o", "xml"}, 2, []string{"xml", "json, yaml, wide, state"}},
		{"no daemon", []string{"devices", "--socket", "/nonexistent/daemon.sock"}, 1, []string{"the daemon could not be asked: /nonexistent/daemon.sock: connect: no such file or directory (--scan needs no daemon)"}},
		{"no socket", []string{"devices"}, 2, []string{"socket: found none", "--scan"}},
		{"settings of the daemon", []string{"devices", "--mode=af"}, 2, []string{"--mode: found without --scan, want both or neither"}},
		{"no sysfs", []string{"devices", "--scan", "--sysfs-root", "/nonexistent"}, 1, noSysfs},
		{"no sysfs for serve", []string{"serve", "--log-format=console", "--sysfs-root", "/nonexistent"}, 1, []string{`--sysfs-root \"/nonexistent\": found nothing, want a directory`}},
		{"sysfs is a file", []string{"devices", "--scan", "--sysfs-root", "/dev/null"}, 1, []string{`--sysfs-root "/dev/null": found a file of mode`, "want a directory"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := cmdtest.Output(t, test.args...)
			if code != test.code {
				t.Errorf("exit code = %d, want %d\n%s%s", code, test.code, stdout, stderr)
			}
			for _, want := range test.says {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("printed nothing of %q:\n%s%s", want, stdout, stderr)
				}
			}
		})
	}
}

func TestDevicesCommand(t *testing.T) {
	node := must.Value(simnode.New(cmdtest.ShortDir(t)))(t)
	roots := []string{"--sysfs-root", node.Sys, "--dev-root", node.Dev, "--host-dev-root", "/dev"}
	// The same as without --pod-resources-socket, but with a path where this machine doesn't have a kubelet.
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot, cfg.PodResourcesSocket = node.Sys, node.Dev, "/nonexistent/kubelet.sock"
	var cmd cobra.Command
	var out, errs bytes.Buffer
	cmd.SetContext(t.Context())
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if err := scanDevices(&cmd, cfg, "json", false); err != nil || out.String() != "[]\n" || errs.String() != scanLine+"\n" {
		t.Errorf("no card: stdout %q, stderr %q, error %v; want [], the headline, none", &out, &errs, err)
	}
	card := cardA
	card.Address, card.NUMANode = "0001:3b:00.0", -1
	must.Succeed(t, node.Plug(card), node.Set(card.Address, 1, "errors/errors", "0x4000000000000"))
	stdout, stderr, code := cmdtest.Output(t, append([]string{"devices", "--scan", "-o", "json"}, roots...)...)
	// Without a kubelet, holders are unknown, and must not be printed as none.
	if !strings.HasPrefix(stderr, scanLine+"\naccelerator-device-plugin: the holders of devices are not known: ") || strings.Count(stderr, "\n") != 2 || code != 0 {
		t.Errorf("a bad card: stderr %q, exit code %d; want a line that holders are not known, 0", stderr, code)
	}
	var got []map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, stdout)
	}
	port := func(id, health, node string, number float64, reasons ...any) map[string]any {
		return map[string]any{
			"id": id, "resource": testResource, "family": "dfl", "health": health, "reasons": append([]any{}, reasons...),
			"pciAddress": "0001:3b:00.0", "pciVendor": "8086", "pciDevice": "09c4", "numaNode": nil, "portId": number, "afuId": card.AFUID, "interfaceId": card.InterfaceID,
			"deviceNodes": []any{node}, "parent": "dfl-fme.0", "holder": []any{}, "holderKnown": false,
			"held": nil, "nodeNumbers": []any{fmt.Sprintf("245:%v", number)}, "parentNodes": []any{"dfl-fme.0"}, "cordon": nil,
			"pciId": "8086:09c4", "subsystem": "8086:0000", "attributes": map[string]any{"bitstreamId": "0x123000200000185"}, "members": []any{}, "sharedNodes": []any{}, "mounts": []any{},
		}
	}
	want := []map[string]any{
		port("0001:3b:00.0", "healthy", "/dev/dfl-port.0", 0),
		port("0001:3b:00.0-p1", "unhealthy", "/dev/dfl-port.1", 1, "port-ap6"),
	}
	compare.Values(t, "devices", want, got)
	for _, format := range []string{"yaml", "wide"} {
		if stdout, _, code := cmdtest.Output(t, append([]string{"devices", "--scan", "-o", format}, roots...)...); code != 0 || !strings.Contains(stdout, "port-ap6") {
			t.Errorf("-o %s: exit code %d, printed:\n%s", format, code, stdout)
		}
	}
}

// If reading a card hangs, the card is printed with that reason rather than left out.
func TestDevicesCommandWithACardThatHangs(t *testing.T) {
	node := must.Value(simnode.New(cmdtest.ShortDir(t)))(t)
	must.Succeed(t, node.Plug(cardA), node.Plug(cardB))
	fifo := filepath.Join(node.PortDir(cardA.Address, 0), "afu_id")
	must.Succeed(t, os.Remove(fifo), syscall.Mkfifo(fifo, 0o600))
	stdout, stderr, code := cmdtest.Output(t, "devices", "--scan", "--sysfs-root", node.Sys, "--dev-root", node.Dev, "--pod-resources-socket", "/nonexistent", "-o", "json")
	var got []struct {
		ID, Health string
		Reasons    []string
		PortID     *int
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v, stderr %q, stdout:\n%s", code, err, stderr, stdout)
	}
	if len(got) != 3 || got[0].Health != "unhealthy" || got[0].Reasons[0] != "read-timeout" || got[0].PortID != nil || got[2].Health != "healthy" {
		t.Errorf("devices = %+v, want both ports of the card that hangs, unhealthy[read-timeout] without number, and the other card healthy", got)
	}
}

func TestSignals(t *testing.T) {
	r, node, kubelet := cmdtest.Serve(t)
	r.Await("scan.done")
	must.Succeed(t, node.Plug(cardB))
	if line := r.Await("device.added"); line["device"] != "5e:00.0" || line["pci"] != "0000:5e:00.0" {
		t.Errorf("device.added = %v, want device 5e:00.0, pci 0000:5e:00.0", line)
	}
	r.Await("stream.opened")
	r.Process.Signal(syscall.SIGHUP)
	r.Await("daemon.reload")
	r.Await("stream.opened")
	compare.Equal(t, "registrations after SIGHUP", 2, kubelet.Registrations(testResource))
	begin := time.Now()
	r.Process.Signal(syscall.SIGTERM)
	compare.Values(t, "reason of daemon.stopping", "terminated signal received", r.Await("daemon.stopping")["reason"])
	r.Await("daemon.stopped")
	if state, err := r.Process.Wait(); err != nil || state.ExitCode() != 0 || time.Since(begin) > 2*time.Second {
		t.Errorf("after SIGTERM: %v, %v in %s; want exit 0 within 2 s", state, err, time.Since(begin))
	}
}

// A read that hangs delays the exit by a second. A second signal makes the daemon exit immediately.
func TestSecondSignalKills(t *testing.T) {
	r, node, _ := cmdtest.Serve(t)
	must.Succeed(t, node.Plug(cardB))
	r.Await("stream.opened")
	fifo := filepath.Join(node.PortDir(cardB.Address, 0), "afu_id")
	must.Succeed(t, os.Remove(fifo), syscall.Mkfifo(fifo, 0o600))
	r.Await("read.timeout")
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := r.Process.Wait()
		ended <- state
	}()
	again := time.NewTicker(time.Millisecond) // repeated, as it may arrive before the first one is handled
	defer again.Stop()
	for {
		select {
		case state := <-ended:
			if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
				t.Errorf("after two signals: %v, want killed by the second", state)
			}
			return
		case <-again.C:
			r.Process.Signal(syscall.SIGTERM)
		}
	}
}

func TestHTTP(t *testing.T) {
	r, node, _ := cmdtest.Serve(t)
	address := "http://" + r.Await("http.served")["address"].(string)
	r.Await("scan.done")
	body := func(path string) (string, int) { return cmdtest.Get(t, address+path) }
	for _, path := range []string{"/healthz", "/readyz"} {
		if text, code := body(path); !strings.HasPrefix(text, "ok\n") || code != 200 { // a source may be lost here
			t.Errorf("%s = %d %q, want 200 ok", path, code, text)
		}
	}
	if text, code := body("/devices"); text != "[]\n" || code != 200 {
		t.Errorf("/devices without card = %d %q, want 200 []", code, text)
	}
	must.Succeed(t, node.Plug(cardB))
	r.Await("stream.opened")
	text, _ := body("/devices")
	compare.Contains(t, "/devices with a card", `"id": "5e:00.0"`, text)
	text, _ = body("/metrics")
	compare.Contains(t, "/metrics with a card", "\naccelerator_lists_sent_total{resource=\"b-com.com/accelerator\"} ", text)
	compare.Contains(t, "/metrics with a card", "\naccelerator_card_info{bitstream_id=\"0x123000200000185\",", text)
	must.Succeed(t, os.Rename(node.Dev, node.Dev+".old"))
	r.Await("source.lost")
	want := "ok\nwatcher of nodes: lost, changes are found by uevents and resync: "
	if text, code := body("/readyz"); code != 200 || !strings.HasPrefix(text, want) {
		t.Errorf("/readyz without a source = %d %q, want 200 %q", code, text, want)
	}
}

// The watch command prints changes but doesn't log them.
func TestWatchIsQuiet(t *testing.T) {
	node := must.Value(simnode.New(cmdtest.ShortDir(t)))(t)
	cmd := cmdtest.Command(t, "watch", "--scan", "--sysfs-root", node.Sys, "--dev-root", node.Dev, "--pod-resources-socket", "/nonexistent")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe := must.Value(cmd.StdoutPipe())(t)
	must.Succeed(t, cmd.Start())
	must.Succeed(t, node.Plug(cardB))
	lines := bufio.NewScanner(pipe)
	for healthy := "5e:00.0         healthy"; lines.Scan() && !strings.Contains(lines.Text(), healthy); {
	}
	must.Succeed(t, node.Set(cardB.Address, 0, "errors/errors", "0x4000000000000"))
	if want := "  changed  5e:00.0         unhealthy  "; !lines.Scan() || !strings.Contains(lines.Text(), want) || !strings.Contains(lines.Text(), "port-ap6") {
		t.Errorf("line = %q, want %q and port-ap6 in it", lines.Text(), want)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	compare.NoError(t, "watch after SIGTERM", cmd.Wait())
	for line := range strings.Lines(stderr.String()) {
		compare.Contains(t, "stderr", "source", line) // a line about unavailable uevents is allowed
	}
}

// SIGUSR1 switches debug logging on and off while the daemon is running, whatever the level, and the switch is logged
// at every level.
func TestDebugIsToggled(t *testing.T) {
	for _, test := range []struct{ level, usual string }{{"info", "info"}, {"error", "error"}, {"debug", "info"}} {
		t.Run(test.level, func(t *testing.T) {
			r, _, kubelet := cmdtest.Serve(t, "--log-level", test.level, "--mode", "pool", "--accel-nbunits", "1")
			registrations := 0
			registered := func() {
				t.Helper()
				registrations++
				must.Succeed(t, kubelet.AwaitRegistrations(t.Context(), testResource, registrations))
			}
			registered()
			toggle := func(old, now string) {
				t.Helper()
				r.Process.Signal(syscall.SIGUSR1)
				if line := r.Await("log.level"); line["old"] != old || line["new"] != now {
					t.Errorf("log.level = %v, want from %s to %s", line, old, now)
				}
			}
			hangUp := func() {
				t.Helper()
				r.Early = nil
				r.Process.Signal(syscall.SIGHUP)
				registered()
			}
			if test.level == "debug" {
				toggle("debug", test.usual)
			}
			for range 2 {
				hangUp()
				toggle(test.usual, "debug")
				if slices.ContainsFunc(r.Early, func(line map[string]any) bool { return line["level"] == "debug" }) {
					t.Errorf("lines %v, want none at debug", r.Early)
				}
				hangUp()
				r.Await("hint.received")
				toggle("debug", test.usual)
			}
		})
	}
}

func TestGranted(t *testing.T) {
	for ids, want := range map[string]string{"": "", "3b:00.0,3b:00.0-p1": "devices 3b:00.0,3b:00.0-p1\n"} {
		t.Setenv("ACCELERATOR_DEVICES", ids)
		if out, errs, code := call(t, "granted"); out != want || (code == 0) != (ids != "") {
			t.Errorf("devices %q: exit code %d, output %q, want %q; stderr %q", ids, code, out, want, errs)
		}
	}
}

// For commands that ask the daemon, the help lists their own flags, but not the settings that need --scan.
func TestHelpFlags(t *testing.T) {
	for command, want := range map[string]string{
		"devices":  "config help output overrides scan socket",
		"watch":    "config for help output overrides scan socket",
		"can-pull": "config help output overrides scan socket",
	} {
		out, _, _ := call(t, command, "--help")
		var flags []string
		for _, m := range regexp.MustCompile(`(?m)^ .*?--([a-z-]+) `).FindAllStringSubmatch(out[strings.Index(out, "\nFlags:"):], -1) {
			flags = append(flags, m[1])
		}
		compare.Equal(t, fmt.Sprintf("flags in the help of %s", command), want, strings.Join(flags, " "))
	}
}
