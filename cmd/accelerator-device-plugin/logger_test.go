package main

import (
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/test/must"
)

// SIGUSR1 switches level debug on and off while the daemon runs, at any level, and the switch is
// logged at every level.
func TestDebugIsToggled(t *testing.T) {
	for _, test := range []struct{ level, usual string }{{"info", "info"}, {"error", "error"}, {"debug", "info"}} {
		t.Run(test.level, func(t *testing.T) {
			r, _, kubelet := serveBinary(t, "--log-level", test.level, "--mode", "pool", "--accel-nbunits", "1")
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
				r.wantNone("debug")
				hangUp()
				r.Await("hint.received")
				toggle("debug", test.usual)
			}
		})
	}
}

// wantNone fails the test if any other line has this level.
func (r *running) wantNone(level string) {
	r.T.Helper()
	for _, line := range r.Early {
		if line["level"] == level {
			r.T.Errorf("line %v, want none at %s", line, level)
		}
	}
}
