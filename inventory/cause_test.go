package inventory_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
)

// The cause of a fault is a problem of the hardware, and not what somebody has chosen, or what is normal for some time.
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
				if got := s.Device("3b:00.0").Cause; got != test.want {
					t.Errorf("cause %q, want %q", got, test.want)
				}
				r.set(cardA, good(0, 0))
				if s, _ = r.Latest(); s.Device("3b:00.0").Cause != "" {
					t.Errorf("over: cause %q, want none", s.Device("3b:00.0").Cause)
				}
			})
		})
	}
}
