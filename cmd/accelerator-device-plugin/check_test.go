package main

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// The check command prints one line for node-problem-detector, and uses its exit codes.
func TestCheck(t *testing.T) {
	r, node, _ := cmdtest.Serve(t, "--recovery-hold", "1s")
	r.Await("control.served")
	socket := r.Args[slices.Index(r.Args, "--socket")+1]
	expect := func(when, want string, code int) {
		t.Helper()
		patient.Await(t, when, func() error {
			line, errs, got := cmdtest.Output(t, "check", "--socket", socket)
			if line != want+"\n" || errs != "" || got != code {
				return fmt.Errorf("exit code %d, printed %q and %q, want %d and %q", got, line, errs, code, want)
			}
			return nil
		})
	}
	run := func(args ...string) {
		t.Helper()
		if out, errs, code := cmdtest.Output(t, append(args, "--socket", socket)...); code != 0 {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	expect("no card", "this node has no cards", 2)
	must.Succeed(t, node.Plug(cardA), node.Plug(cardB))
	expect("two cards", "2 cards without a fault", 0)
	must.Succeed(t, node.Break("3b:00.0-p1", "port-ap6"))
	expect("broken port", "1 of 2 cards: 3b:00.0-p1 port-ap6", 1)
	run("cordon", "3b:00.0", "--why", "test")
	expect("cordoned card", "2 cards without a fault", 0)
	run("uncordon", "3b:00.0")
	expect("broken port again", "1 of 2 cards: 3b:00.0-p1 port-ap6", 1)
	must.Succeed(t, node.Heal("3b:00.0-p1"))
	expect("healed port", "2 cards without a fault", 0)
	must.Succeed(t, r.Process.Kill())
	expect("no daemon", "the daemon could not be asked: "+socket+": connect: connection refused", 2)
}

// A daemon of another version may have no verdict, or one that this program doesn't know.
func TestCheckOtherVersion(t *testing.T) {
	for state, want := range map[string]string{
		`{}`: `the daemon answers "", want good, bad or unknown: it has another version`,
		`{"verdict":{"status":"tired","message":"x"}}`:            `the daemon answers "tired", want good, bad or unknown: it has another version`,
		`{"verdict":{"status":"bad","message":"a\u001b[31m\nb"}}`: `a\x1b[31m; b`,
	} {
		path := filepath.Join(cmdtest.ShortDir(t), "daemon.sock")
		listener := must.Value(net.Listen("unix", path))(t)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, state) })}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { server.Close() })
		wantCode := 2
		if want[0] == 'a' {
			wantCode = 1
		}
		if line, errs, code := cmdtest.Output(t, "check", "--socket", path); line != want+"\n" || errs != "" || code != wantCode {
			t.Errorf("%s: exit code %d, printed %q and %q, want %d and %q", state, code, line, errs, wantCode, want)
		}
	}
	if line, errs, code := cmdtest.Output(t, "check", "--mode=af"); code != 2 || line != "" {
		t.Errorf("usage error: exit code %d, printed %q and %q, want 2", code, line, errs)
	}
}
