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
