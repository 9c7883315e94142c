package inventory_test

import (
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// withFlaps returns a configuration with a low limit of turns.
func withFlaps(limit int) inventory.Config {
	cfg := testConfig
	cfg.RecoveryHold, cfg.FlapLimit, cfg.FlapWindow = time.Second, limit, time.Minute
	cfg.HealthInterval = time.Hour
	return cfg
}

// turn breaks or heals the card, and waits for the hold.
func (r *rig) turn(bad ...inventory.Condition) {
	r.family.set(cardA, good(0, 0, bad...))
	r.hint(cardA)
	r.after(time.Second)
}

func TestFlapping(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, withFlaps(3), f)
		r.turn(ap6)
		r.turn()
		r.turn(ap6) // third turn
		r.turn()    // fourth
		r.want("one turn more than the limit", map[string]string{"3b:00.0": "unhealthy[flapping]"})
		r.after(58 * time.Second)
		r.want("not steady for a window yet", map[string]string{"3b:00.0": "unhealthy[flapping]"})
		r.turn(ap6)
		r.want("another turn, in quarantine", map[string]string{"3b:00.0": "unhealthy[flapping port-ap6]"})
		r.turn()
		r.after(time.Minute - 2*time.Second)
		r.want("not steady since then", map[string]string{"3b:00.0": "unhealthy[flapping]"})
		r.after(2 * time.Second)
		r.want("steady", map[string]string{"3b:00.0": "healthy[]"})
		r.turn(ap6)
		r.turn()
		r.want("turns before the quarantine do not count", map[string]string{"3b:00.0": "healthy[]"})
	})
}

func TestQuarantineEndsWhileBad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, withFlaps(1), f)
		r.turn(ap6)
		r.turn()
		r.want("flapping", map[string]string{"3b:00.0": "unhealthy[flapping]"})
		r.turn(ap6)
		r.after(time.Minute)
		r.want("steadily bad", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
	})
}

func TestTurnsThatAreFarApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, withFlaps(3), f)
		for range 20 {
			r.turn(ap6)
			r.after(20 * time.Second)
			r.turn()
			r.after(20 * time.Second)
		}
		r.want("three turns a minute", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// Several changes within one hold are two turns, however many they are.
func TestChangesWithinAHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, withFlaps(2), f)
		for range 30 {
			r.set(cardA, good(0, 0, ap6))
			r.set(cardA, good(0, 0))
			r.after(time.Millisecond)
		}
		r.after(time.Second)
		r.want("thirty times", map[string]string{"3b:00.0": "healthy[]"})
	})
}

func TestFlapLimitOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, withFlaps(0), f)
		for range 50 {
			r.turn(ap6)
			r.turn()
		}
		r.want("a hundred turns", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// resetting is a passing condition that makes a device unhealthy.
var resetting = inventory.Condition{Reason: "resetting", Health: inventory.Unhealthy, Passing: true}

// Resets are no turns, unless the card is reset all the time.
func TestFlapsByPassingConditions(t *testing.T) {
	for _, test := range []struct {
		name          string
		reset, steady time.Duration // for how long the card is reset, and good afterwards
		want          string
	}{
		{"now and then", 5 * time.Second, 55 * time.Second, "healthy[]"},
		{"often", 5 * time.Second, 20 * time.Second, "unhealthy[flapping]"},
		{"most of the time", 50 * time.Second, 12 * time.Second, "unhealthy[flapping]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg := testConfig
				cfg.FlapLimit, cfg.FlapWindow = 5, 10*time.Minute
				f := newFakeFamily("xrt")
				f.set(cardA, good(0, 0))
				r := start(t, cfg, f)
				for began := time.Now(); time.Since(began) < time.Hour; {
					r.set(cardA, good(0, 0, resetting))
					r.after(test.reset)
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

// A device that stays offered while it is programmed does not turn.
func TestProgrammingIsNoTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, withFlaps(1), f)
		for range 100 {
			r.turn(busy)
			r.turn()
		}
		r.want("programmed at each start of a container", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// Conditions that take turns are a fault when each of them is still within its time, also without a limit of turns.
func TestPassingConditionsThatAlternate(t *testing.T) {
	offline := resetting
	offline.Reason = "device-offline"
	for _, limit := range []int{0, 3} {
		bubble(t, func(t *testing.T) {
			f := newFakeFamily("xrt")
			f.set(cardA, good(0, 0))
			r := start(t, withFlaps(limit), f)
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
