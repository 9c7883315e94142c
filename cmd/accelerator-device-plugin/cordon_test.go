package main

import (
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// A cordon that the daemon hasn't published yet isn't shown as in effect.
func TestInService(t *testing.T) {
	for health, want := range map[string]string{"unhealthy": "out of service", "healthy": "healthy"} {
		compare.Equal(t, health+": in service", want, inService(view.Row{Health: health, Cordon: &cordon.Cordon{}}))
	}
}

// These commands are rejected without asking the daemon.
func TestCordonUsage(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"no reason", []string{"cordon", "3b:00.0"}, "--why: found none, want the reason for the cordon", 2},
		{"no device", []string{"cordon", "--why", "x"}, "DEVICE: found none, want the PCI address of a card", 2},
		{"another card", []string{"uncordon", "card1"}, `DEVICE: found "card1", want the PCI address of a card`, 2},
		{"backwards", []string{"cordon", "3b:00.0", "--why", "x", "--for", "-1s"}, "--for: found -1s, want a duration", 2},
		{"days", []string{"cordon", "3b:00.0", "--why", "x", "--for", "2d"}, `invalid argument "2d" for "--for" flag`, 2},
		{"a setting of the daemon", []string{"cordon", "3b:00.0", "--why", "x", "--mode", "af"}, "unknown flag: --mode", 2},
		{"forget no card", []string{"forget"}, "accepts 1 arg(s), received 0", 2},
		{"forget a port", []string{"forget", "3b:00.0-p1"}, `CARD: found "3b:00.0-p1", want the PCI address of a card`, 2},
		{"forget without a daemon", []string{"forget", "3b:00.0", "--socket", "/nonexistent/s"}, "/nonexistent/s: ", 1},
		{"no daemon", []string{"uncordon", "3b:00.0", "--socket", "/nonexistent/s"}, "/nonexistent/s: ", 1},
		{"a name with control characters", []string{"uncordon", "3b:00.0", "--socket", "/nonexistent/\x1b[31m"}, `/nonexistent/\x1b[31m`, 1},
		{"no socket", []string{"uncordon", "3b:00.0", "--socket", ""}, "socket: found none, want the path of the daemon's socket\n", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if out, errs, code := call(t, tc.args...); code != tc.code || !strings.Contains(errs, tc.want) || out != "" {
				t.Errorf("exit code %d, %s%s", code, out, errs)
			}
		})
	}
}
