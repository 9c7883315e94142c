package inventory_test

import (
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// A fault is caused by a hardware problem. Administrative reasons and conditions that are normal for a while aren't
// causes.
func TestCause(t *testing.T) {
	unhealthy := func(reasons ...string) (all []inventory.Condition) {
		for _, reason := range reasons {
			all = append(all, inventory.Condition{Reason: reason, Health: inventory.Unhealthy})
		}
		return all
	}
	throttled := inventory.Condition{Reason: "power-throttled=1", Health: inventory.Degraded}
	for _, test := range []struct {
		name string
		read []inventory.Condition
		want string
	}{
		{"healthy", nil, ""},
		{"cordoned", unhealthy("cordoned"), ""},
		{"cordoned and excluded, and broken", unhealthy("cordoned", "excluded", "port-ap6"), "port-ap6"},
		{"programmed", []inventory.Condition{busy}, ""},
		{"loading", unhealthy("loading"), ""},
		{"programmed, and too hot", append(unhealthy("port-ap6"), busy), "port-ap6"},
		{"throttled", []inventory.Condition{throttled, busy}, throttled.Reason},
		{"half removed", unhealthy("unreadable=id", "fme-unbound", "node-missing"), "fme-unbound"},
		{"broken, and half removed", unhealthy("fme-unbound", "port-ap6"), "port-ap6"},
	} {
		t.Run(test.name, func(t *testing.T) {
			withCard(t, testConfig, func(t *testing.T, r *rig, _ *fakeFamily) {
				r.set(cardA, good(0, 0, test.read...))
				s, _ := r.Latest()
				compare.Equal(t, "cause", test.want, s.Device("3b:00.0").Cause)
				r.set(cardA, good(0, 0))
				if s, _ = r.Latest(); s.Device("3b:00.0").Cause != "" {
					t.Errorf("over: cause %q, want none", s.Device("3b:00.0").Cause)
				}
			})
		})
	}
}

// Even a reader that skips snapshots learns why a card fell off the bus. An error counter rises in only one reading,
// and the next one may already show that the card is gone.
func TestCauseBeforeRemoval(t *testing.T) {
	fatal := inventory.Condition{Reason: "aer-fatal", Health: inventory.Unhealthy}
	unbound := inventory.Condition{Reason: inventory.ReasonFMEUnbound, Health: inventory.Unhealthy}
	throttled := inventory.Condition{Reason: "power-throttled=1", Health: inventory.Degraded}
	for _, test := range []struct {
		name string
		was  inventory.Condition
		want string
	}{
		{"failed", fatal, fatal.Reason},
		{"throttled", throttled, unbound.Reason},
		{"programmed", busy, unbound.Reason},
		{"excluded", inventory.Condition{Reason: inventory.ReasonExcluded, Health: inventory.Unhealthy}, unbound.Reason},
	} {
		t.Run(test.name, func(t *testing.T) {
			withCard(t, testConfig, func(t *testing.T, r *rig, _ *fakeFamily) {
				r.set(cardA, good(0, 0, test.was))
				r.set(cardA, good(0, 0, unbound))
				s, _ := r.Latest()
				if d := s.Device("3b:00.0"); d.Cause != test.want || !d.Fault {
					t.Errorf("cause %q, fault %t, want %q and a fault", d.Cause, d.Fault, test.want)
				}
				r.set(cardA, good(0, 0))
				if s, _ = r.Latest(); s.Device("3b:00.0").Cause != "" || s.Device("3b:00.0").Fault {
					t.Errorf("over: cause %q, want none", s.Device("3b:00.0").Cause)
				}
			})
		})
	}
}

// TestCauses checks which reasons are hardware faults.
func TestCauses(t *testing.T) {
	faults := []string{"driver-unbound", "flapping", "missing", "no-port", "node-mismatch", "node-missing", "port-id-conflict",
		"port-missing", "read-timeout", "recovering", "recovery-failed", "scan-failed", "unreadable"}
	for _, reason := range inventory.Reasons() {
		withCard(t, testConfig, func(t *testing.T, r *rig, _ *fakeFamily) {
			r.set(cardA, good(0, 0, inventory.Condition{Reason: reason, Health: inventory.Unhealthy}))
			s, _ := r.Latest()
			d, want := s.Device("3b:00.0"), slices.Contains(faults, reason)
			if (d.Cause != "") != want || d.Fault != want {
				t.Errorf("%s: cause %q, fault %t, want one: %t", reason, d.Cause, d.Fault, want)
			}
		})
	}
}
