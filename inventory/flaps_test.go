package inventory_test

import (
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// resetting is a passing condition that makes a device unhealthy.
var resetting = inventory.Condition{Reason: "resetting", Health: inventory.Unhealthy, Passing: true}

// Resets don't count as turns, unless the card is being reset all the time.
func TestFlapsByPassingConditions(t *testing.T) {
	for _, test := range []struct {
		name          string
		reset, steady time.Duration // how long the card is being reset, and how long it is healthy afterwards
		want          string
	}{
		{"now and then", 5 * time.Second, 55 * time.Second, "healthy[]"},
		{"often", 5 * time.Second, 20 * time.Second, "unhealthy[flapping]"},
		{"most of the time", 50 * time.Second, 12 * time.Second, "unhealthy[flapping]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig
			cfg.FlapLimit, cfg.FlapWindow = 5, 10*time.Minute
			withCard(t, cfg, func(t *testing.T, r *rig, _ *fakeFamily) {
				for began := time.Now(); time.Since(began) < time.Hour; {
					r.set(cardA, good(0, 0, resetting))
					r.after(test.reset)
					if s, _ := r.Latest(); s.Device("3b:00.0").Fault {
						t.Fatalf("found a fault, want none: each reset is short, and the next container would be evicted for those of the last one")
					}
					r.set(cardA, good(0, 0))
					r.after(test.steady)
				}
				r.want("after an hour", map[string]string{"3b:00.0": test.want})
				r.after(10 * time.Minute)
				r.want("steady", map[string]string{"3b:00.0": "healthy[]"})
			})
		})
	}
}

// Programming doesn't count as a turn if the device stays offered.
func TestProgrammingIsNoTurn(t *testing.T) {
	withCard(t, withFlaps(1), func(t *testing.T, r *rig, _ *fakeFamily) {
		for range 100 {
			r.turn(busy)
			r.turn()
		}
		r.want("programmed at each start of a container", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// Passing conditions that alternate add up to a fault, even if each of them is still within its time limit, and even
// without a limit on turns.
func TestPassingConditionsThatAlternate(t *testing.T) {
	offline := resetting
	offline.Reason = "device-offline"
	for _, limit := range []int{0, 3} {
		withCard(t, withFlaps(limit), func(t *testing.T, r *rig, _ *fakeFamily) {
			fault := func() bool {
				s, _ := r.Latest()
				return s.Device("3b:00.0").Fault
			}
			for range 29 {
				r.turn(resetting)
				r.turn(offline)
			}
			if fault() {
				t.Error("found a fault before a minute, want none")
			}
			r.turn(resetting)
			r.turn(offline)
			if !fault() {
				t.Errorf("found no fault after a minute: %v", r.states())
			}
			r.turn()
			r.want("reset after all", map[string]string{"3b:00.0": "healthy[]"})
		})
	}
}
