package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/registry/keep"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
	"b-com.com/accelerator-device-plugin/test/simapiserver"
)

// Each error in the settings is one line, with exit code 2. Failed pulls are not such errors.
func TestKeepErrors(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	dir := privatedirtest.Dir(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	list, bad, key := write("list.txt", "127.0.0.1:1/fpga/nlb:1.0\n"), write("bad.txt", "nlb\n"), write("key.pem", "key")
	for line, want := range map[string]string{
		"":                                      "--list: found none, want a file",
		"--list " + dir + "/none.txt":           "--list: stat " + dir + "/none.txt: no such file or directory",
		"--list " + bad:                         "--list: " + bad + `: line 1: found "nlb", want REGISTRY/NAME, REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST in lower case`,
		"--list " + list + " x":                 `unknown command "x" for "accelerator-fpga keep"`,
		"--list " + list + " --store=":          `--store: found "", want a directory`,
		"--list " + list + " --interval 30s":    "--interval: found 30s, want at least 1m",
		"--list " + list + " --timeout 0s":      "--timeout: found 0s, want more than 0s",
		"--list " + list + " --gc-age 23h":      "--gc-age: found 23h0m0s, want 0, or at least 24h0m0s",
		"--list " + list + " --gc-max-size -1":  "--gc-max-size: found -1, want 0 to 1073741824",
		"--list " + list + " --min-free 91":     "--min-free: found 91, want 0 to 90",
		"--list " + list + " --events-pod x":    `--events-pod: found "x", want NAMESPACE/NAME`,
		"--list " + list + " --key " + key:      "--key " + key + ": ",
		"--list " + list + " --ca-file " + list: "--ca-file: found no certificate in " + list + ", want some in PEM",
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), append([]string{"keep"}, strings.Fields(line)...), io.Discard, &stderr)
		compare.Equal(t, line+": exit code", 2, code)
		compare.Contains(t, line, "accelerator-fpga keep: "+want, stderr.String())
		compare.Equal(t, line+": lines", 1, strings.Count(stderr.String(), "\n"))
	}

	var stderr bytes.Buffer
	code := run(t.Context(), []string{"keep", "--once", "--list", list, "--store", filepath.Join(dir, "store")}, io.Discard, &stderr)
	compare.Equal(t, "exit code with a registry that is away", 0, code)
	var got []string
	for line := range strings.Lines(stderr.String()) {
		must.Succeed(t, eventtest.Line([]byte(line)))
		_, event, _ := strings.Cut(line, `"event":"`)
		got = append(got, event[:strings.Index(event, `"`)])
	}
	compare.Values(t, "log", []string{"keep.started", "bitstream.failed", "keep.stopped"}, got)
	compare.Contains(t, "log", `"error":"127.0.0.1:1/fpga/nlb:1.0: dial tcp 127.0.0.1:1: connect: connection refused"`, stderr.String())
}

// The chart uses only flags that the command has.
func TestKeepFlags(t *testing.T) {
	chart := string(must.Value(os.ReadFile("../../../deploy/helm/accelerator-device-plugin/templates/bitstreams.yaml"))(t))
	seen := 0
	for line := range strings.Lines(chart) {
		if _, flag, ok := strings.Cut(line, "- --"); ok || strings.Contains(line, `print "--store=`) {
			name, _, _ := strings.Cut(strings.TrimSpace(flag), "=")
			if seen++; ok && newKeep().Flags().Lookup(name) == nil {
				t.Errorf("the chart has --%s, want a flag of keep", name)
			}
		}
	}
	if seen < 12 {
		t.Errorf("found %d flags in the chart, want 12 or more", seen)
	}
}

// The AFUs of the cards are read from sysfs. If one cannot be read, this is an error.
func TestLoadedAFUs(t *testing.T) {
	ids, err := loadedAFUs(t.TempDir())
	compare.NoError(t, "no card", err)
	compare.Empty(t, "AFUs", ids)
	root := t.TempDir()
	must.Succeed(t, board.Unfold(root, "../../../testdata/sysfs/kernel-6.1-one-card.txtar"))
	ids, err = loadedAFUs(root + "/sys")
	compare.NoError(t, "a card", err)
	compare.Values(t, "AFUs", []string{bits.AFU}, ids)
	must.Succeed(t, os.WriteFile(root+"/sys/class/fpga_region/region0/dfl-port.0/afu_id", []byte("?\n"), 0o644))
	compare.Error(t, "an AFU id that cannot be read", "", compare.ErrorOf(loadedAFUs(root+"/sys")))
}

// All references that fail at the same time share one Event. It is written again when another reference fails, and
// every half hour.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := pipes.Listen(0)
		server := simapiserver.Start(network)
		defer server.Close()
		path := filepath.Join(t.TempDir(), "kubeconfig")
		must.Succeed(t, os.WriteFile(path, server.Kubeconfig(), 0o600))
		log := eventtest.Log(t)
		client := must.Value(apiserver.Open(apiserver.Config{Kubeconfig: path, Dial: network.Dial}, log))(t)
		var mu sync.Mutex
		states := []keep.State{{Reference: "a"}, {Reference: "b"}}
		ctx, cancel := context.WithCancel(t.Context())
		changed, ended := make(chan struct{}, 1), make(chan error)
		r := recorder{writer: client.Writer(ctx, "worker-3"), node: "worker-3", log: log,
			pod: apiserver.Object{Kind: "Pod", Namespace: "kube-system", Name: "keep-1", UID: "uid-1"},
			states: func() ([]keep.State, map[string]int) {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(states), nil
			}}
		go func() { ended <- r.run(ctx, changed) }()
		set := func(i int, s keep.State) {
			mu.Lock()
			states[i] = s
			mu.Unlock()
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		events := func(name string, want ...string) {
			t.Helper()
			var got []string
			for _, e := range server.Events() {
				got = append(got, e.String())
			}
			compare.Values(t, name, want, got)
		}
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() } // of the bubble
		fails := func(name string, present bool) keep.State {
			return keep.State{Reference: name, Result: keep.Failed, Error: name + ": away", Present: present}
		}
		works := func(name string) keep.State {
			return keep.State{Reference: name, Result: keep.Installed, Present: true}
		}

		set(0, works("a"))
		after(time.Minute)
		events("one is present, the other was not tried")
		set(0, fails("a", true))
		after(time.Second)
		set(1, fails("b", false))
		after(time.Minute)
		const prefix = "kube-system Pod/keep-1 uid-1 Warning BitstreamsFailed "
		const both = "2 of 2 bitstreams not pulled or checked: a: away (the store has the last bitstream of this reference); b: away (the store does not have the bitstream)"
		events("both fail", prefix+"x1 "+both)
		set(0, fails("a", true))
		after(10 * time.Minute)
		events("again", prefix+"x1 "+both)
		after(25 * time.Minute)
		events("after half an hour", prefix+"x2 "+both)
		server.UseFault(func(w http.ResponseWriter, _ *http.Request) bool {
			simapiserver.Refuse(w, http.StatusServiceUnavailable, "away")
			return true
		})
		set(1, works("b"))
		after(time.Minute)
		server.UseFault(nil)
		after(time.Minute)
		events("one recovers while the API server is away", prefix+"x3 1 of 2 bitstreams not pulled or checked: a: away (the store has the last bitstream of this reference)")
		server.ExpireEvents()
		set(0, fails("a", false))
		after(15 * time.Second)
		const lacks = prefix + "x4 1 of 2 bitstreams not pulled or checked: a: away (the store does not have the bitstream)"
		events("another text, after the Event has expired", lacks)
		set(0, works("a"))
		after(40 * time.Second)
		events("less than a minute later", lacks)
		after(20 * time.Second)
		events("all recover", lacks, "kube-system Pod/keep-1 uid-1 Normal BitstreamsPresent x1 The store of this node has the bitstreams of all 2 references")
		cancel()
		must.Succeed(t, <-ended)
	})
}

// The message of an Event is limited.
func TestSummary(t *testing.T) {
	var states []keep.State
	for range 100 {
		states = append(states, keep.State{Result: keep.Failed, Error: strings.Repeat("é\n", 1000)})
	}
	reason, message := summary(states)
	compare.Equal(t, "reason", bitstreamsFailed, reason)
	compare.Contains(t, "message", "; and 97 more references failed", message)
	if len(message) > 1024 || strings.Contains(message, "\n") { // the API server's limit
		t.Errorf("found %d characters, want one line of at most 1024", len(message))
	}
}

// The program has certificate authorities even if the system has none, as in its image.
func TestAuthorities(t *testing.T) {
	if os.Getenv("SSL_CERT_FILE") != "/none" { // the first use of the authorities in a process decides
		cmd := exec.CommandContext(t.Context(), must.Value(os.Executable())(t), "-test.run", "^TestAuthorities$", "-test.v")
		cmd.Env = []string{"SSL_CERT_FILE=/none", "SSL_CERT_DIR=/none"}
		out, err := cmd.CombinedOutput()
		compare.NoError(t, string(out), err)
		compare.Contains(t, "output", "--- PASS: TestAuthorities", string(out))
		return
	}
	pool := must.Value(x509.SystemCertPool())(t)
	if pool.Equal(x509.NewCertPool()) {
		t.Error("found no authority, want those of Mozilla")
	}
}
