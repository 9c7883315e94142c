package inventory_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// After a daemon restart, recovery holds and quarantines continue where they left off, unless there is a different card
// in the slot.
func TestRemembered(t *testing.T) {
	const model = "8086:09c4:8086:0000"
	card := func(edit func(*inventory.Unit)) inventory.Unit {
		u := good(0, 0)
		u.PCIID, u.Attributes = model, map[string]string{inventory.AttributeSerialNumber: "1"}
		if edit != nil {
			edit(&u)
		}
		return u
	}
	shift := func(by time.Duration) func(map[string]*inventory.Device) {
		return func(all map[string]*inventory.Device) {
			for _, d := range all {
				for i := range d.Memory.Turns {
					d.Memory.Turns[i] = d.Memory.Turns[i].Add(by)
				}
				for i := range d.Memory.Holds {
					d.Memory.Holds[i].Since = d.Memory.Holds[i].Since.Add(by)
				}
			}
		}
	}
	const held, flapping, healthy = "unhealthy[recovering=port-ap6]", "unhealthy[flapping]", "healthy[]"
	for _, test := range []struct {
		name   string
		turns  int // before the restart
		edit   func(map[string]*inventory.Device)
		next   inventory.Unit                      // the card after the restart
		states map[time.Duration]map[string]string // keyed by the time since the restart
	}{
		{"hold", 1, nil, card(nil), map[time.Duration]map[string]string{0: {"3b:00.0": held}, 5 * time.Second: {"3b:00.0": held}, 7 * time.Second: {"3b:00.0": healthy}}},
		{"quarantine", 6, nil, card(nil), map[time.Duration]map[string]string{
			0: {"3b:00.0": "unhealthy[flapping recovering=port-ap6]"}, 9 * time.Minute: {"3b:00.0": flapping}, 11 * time.Minute: {"3b:00.0": healthy},
		}},
		{"still broken", 1, nil, card(func(u *inventory.Unit) { u.Conditions = []inventory.Condition{ap6} }),
			map[time.Duration]map[string]string{0: {"3b:00.0": "unhealthy[port-ap6]"}, time.Minute: {"3b:00.0": "unhealthy[port-ap6]"}}},
		{"another model", 6, nil, card(func(u *inventory.Unit) { u.PCIID = "8086:0b30:8086:0000" }), map[time.Duration]map[string]string{0: {"3b:00.0": healthy}}},
		{"another card of the model", 6, nil, card(func(u *inventory.Unit) { u.Attributes[inventory.AttributeSerialNumber] = "2" }), map[time.Duration]map[string]string{0: {"3b:00.0": healthy}}},
		{"another AFU", 6, nil, card(func(u *inventory.Unit) { u.AFUID = afu2 }), map[time.Duration]map[string]string{9 * time.Minute: {"3b:00.0": flapping}}},
		{"the clock was set back by a year", 6, shift(365 * 24 * time.Hour), card(nil), map[time.Duration]map[string]string{
			9 * time.Minute: {"3b:00.0": flapping}, 11 * time.Minute: {"3b:00.0": healthy},
		}},
		{"hold, and the clock was set back", 1, shift(365 * 24 * time.Hour), card(nil), map[time.Duration]map[string]string{9 * time.Second: {"3b:00.0": held}, 11 * time.Second: {"3b:00.0": healthy}}},
		{"the clock was set forward by ages", 6, shift(-290 * 365 * 24 * time.Hour), card(nil), map[time.Duration]map[string]string{0: {"3b:00.0": healthy}}},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			cfg := withFlaps(5)
			cfg.RecoveryHold, cfg.FlapWindow = 10*time.Second, 10*time.Minute
			family := oneCard(card(nil))
			r := start(t, cfg, family)
			for i := range test.turns {
				r.set(cardA, card(func(u *inventory.Unit) { u.Conditions = []inventory.Condition{ap6} }))
				r.after(time.Second)
				r.set(cardA, card(nil))
				if i < test.turns-1 {
					r.after(11 * time.Second)
				}
			}
			r.after(4 * time.Second)
			cfg.Remembered = remembered(t, r)
			if test.edit != nil {
				test.edit(cfg.Remembered)
			}

			next := oneCard(test.next)
			restarted := start(t, cfg, next)
			at := time.Duration(0)
			for len(test.states) > 0 {
				var first time.Duration = 1 << 62
				for after := range maps.Keys(test.states) {
					first = min(first, after)
				}
				restarted.after(first - at)
				restarted.want(first.String()+" after the restart", test.states[first])
				at = first
				delete(test.states, first)
			}

			// The history is used only once, so a card that is plugged in later is new.
			restarted.pull(cardA)
			restarted.set(cardA, card(nil))
			restarted.want("plugged", map[string]string{"3b:00.0": healthy})
			if s, _ := restarted.Latest(); s.Device("3b:00.0").Memory != nil {
				t.Errorf("plugged: found %v, want nothing remembered", s.Device("3b:00.0").Memory)
			}
		})
	}
}

// remembered returns what the ledger passes on to the next daemon.
func remembered(t *testing.T, r *rig) map[string]*inventory.Device {
	t.Helper()
	s, _ := r.Latest()
	past := *s.Device("3b:00.0")
	if past.Memory == nil {
		t.Fatal("found no memory of the device")
	}
	text := must.Value(json.Marshal(past.Memory))(t)
	past.Memory = &inventory.Memory{}
	must.Succeed(t, json.Unmarshal(text, past.Memory))
	return map[string]*inventory.Device{past.ID: &past}
}

// A device that is unhealthy when the daemon exits waits out the recovery hold after the restart, just as it would if
// there had been no restart. Its recovery counts as a turn, unless the condition was a passing one.
func TestBadAtTheEnd(t *testing.T) {
	for _, test := range []struct {
		name      string
		bad       inventory.Condition
		meanwhile bool // it recovers before the next start
		turns     int
	}{
		{"well again meanwhile", ap6, true, 2},
		{"well again after the restart", ap6, false, 2},
		{"reset meanwhile", resetting, true, 0},
		{"reset after the restart", resetting, false, 0},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			cfg := withFlaps(5)
			cfg.RecoveryHold, cfg.FlapWindow = 10*time.Second, time.Hour
			family := oneCard()
			r := start(t, cfg, family)
			r.set(cardA, good(0, 0, test.bad))
			r.after(time.Second)
			cfg.Remembered = remembered(t, r)

			next := oneCard(good(0, 0, test.bad))
			if test.meanwhile {
				next.set(cardA, good(0, 0))
			}
			r = start(t, cfg, next)
			if !test.meanwhile {
				r.after(time.Second)
				r.set(cardA, good(0, 0))
			}
			held := map[string]string{"3b:00.0": "unhealthy[recovering=" + test.bad.Reason + "]"}
			r.want("well again", held)
			r.after(9 * time.Second)
			r.want("9 s later", held)
			r.after(2 * time.Second)
			r.want("11 s later", map[string]string{"3b:00.0": "healthy[]"})
			turns := 0
			if s, _ := r.Latest(); s.Device("3b:00.0").Memory != nil {
				turns = len(s.Device("3b:00.0").Memory.Turns)
			}
			compare.Equal(t, "turns", test.turns, turns)
		})
	}
}

// A quarantined device that is unhealthy when the daemon exits stays in quarantine for one flap window after it has
// recovered.
func TestBadInQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := withFlaps(5)
		cfg.RecoveryHold, cfg.FlapWindow = 5*time.Second, 100*time.Second
		family := oneCard()
		r := start(t, cfg, family)
		for range 4 {
			r.set(cardA, good(0, 0))
			r.after(6 * time.Second)
			r.set(cardA, good(0, 0, ap6))
			r.after(time.Second)
		}
		r.want("at the end", map[string]string{"3b:00.0": "unhealthy[flapping port-ap6]"})
		cfg.Remembered = remembered(t, r)

		next := oneCard(good(0, 0, ap6))
		r = start(t, cfg, next)
		r.after(20 * time.Second)
		r.set(cardA, good(0, 0))
		r.after(104 * time.Second) // 5 s plus a flap window that isn't over yet
		r.want("104 s after the recovery", map[string]string{"3b:00.0": "unhealthy[flapping]"})
		r.after(2 * time.Second)
		r.want("106 s after the recovery", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// Restarting the daemon changes neither a device's health nor its reasons.
func TestRestartsChangeNothing(t *testing.T) {
	slow := inventory.Condition{Reason: "port-mmio-timeout", Health: inventory.Degraded}
	dead := inventory.Condition{Reason: "port-dead", Health: inventory.Unhealthy}
	states := [][]inventory.Condition{nil, nil, {ap6}, {slow}, {ap6, slow}, {dead}, {dead, ap6}}
	passing := [][]inventory.Condition{nil, nil, {ap6}, {slow}, {resetting}, {busy}, {resetting, busy}, {resetting, ap6}, {busy, ap6}}
	for seed := range uint64(300) {
		if seed == 100 {
			states = passing
		}
		bubble(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			cfg := withFlaps(3)
			cfg.RecoveryHold, cfg.FlapWindow, cfg.ReprogramTimeout = 10*time.Second, time.Minute, time.Hour
			card := good(0, 0)
			start := func(all map[string]*inventory.Device) *rig {
				c, family := cfg, newFakeFamily("dfl")
				c.Remembered = all
				family.set(cardA, card)
				return start(t, c, family)
			}
			steady, restarted := start(nil), start(nil)
			steps := ""
			for range 60 {
				switch random.IntN(4) {
				case 0, 1:
					i := random.IntN(len(states))
					card = good(0, 0, states[i]...)
					steady.set(cardA, card)
					restarted.set(cardA, card)
					steps += fmt.Sprint("; ", states[i])
				case 2:
					var all map[string]*inventory.Device
					if s, _ := restarted.Latest(); s.Device("3b:00.0").Memory != nil {
						all = remembered(t, restarted)
					}
					away := time.Duration(random.IntN(3)*random.IntN(40)) * time.Second // often 0 s
					steady.after(away)
					restarted = start(all)
					steps += "; restart within " + away.String()
				}
				after := time.Duration(random.IntN(15)) * time.Second
				steady.after(after)
				steps += ", " + after.String()
				if diff := cmp.Diff(steady.states(), restarted.states()); diff != "" {
					t.Fatalf("seed %d%s: (-without +with restarts):\n%s", seed, steps, diff)
				}
			}
		})
	}
}

// If a passing condition had already lasted too long before a restart, it still counts as too long afterwards: the
// device isn't offered and has a fault. That isn't true of a condition that is only present for a moment.
func TestPassingAtTheEnd(t *testing.T) {
	reprogramming := inventory.Condition{Reason: "reprogramming", Health: inventory.Degraded, Passing: true}
	notReady := inventory.Condition{Reason: "management-not-ready", Health: inventory.Unhealthy, Passing: true}
	for _, test := range []struct {
		name      string
		condition inventory.Condition
		first     []inventory.Condition // when the daemon starts
		after     time.Duration
		later     []inventory.Condition // present only for a moment
		want      string
		fault     bool
	}{
		{"programmed", reprogramming, nil, 10 * time.Second, nil, "degraded[reprogramming]", false},
		{"programmed for long", reprogramming, nil, 2 * time.Minute, nil, "unhealthy[reprogramming]", true},
		{"reset", resetting, nil, 10 * time.Second, nil, "unhealthy[resetting]", false},
		{"reset for long", resetting, nil, 2 * time.Minute, nil, "unhealthy[resetting]", true},
		{"reset for long, and never offered", resetting, []inventory.Condition{resetting}, 2 * time.Minute, nil, "unhealthy[resetting]", true},
		{"not ready for long, and reset", notReady, nil, 2 * time.Minute, []inventory.Condition{resetting}, "unhealthy[management-not-ready resetting]", true},
		{"reset for long, and not ready", resetting, nil, 2 * time.Minute, []inventory.Condition{notReady}, "unhealthy[management-not-ready resetting]", true},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			cfg := withFlaps(3)
			cfg.ReprogramTimeout = time.Minute
			family := oneCard(good(0, 0, test.first...))
			r := start(t, cfg, family)
			r.set(cardA, good(0, 0, test.condition))
			r.after(test.after)
			all := append([]inventory.Condition{test.condition}, test.later...)
			r.set(cardA, good(0, 0, all...))
			for range 3 {
				cfg.Remembered = remembered(t, r)
				family = oneCard(good(0, 0, all...))
				r = start(t, cfg, family)
				r.want("after a restart", map[string]string{"3b:00.0": test.want})
				if s, _ := r.Latest(); s.Device("3b:00.0").Fault != test.fault {
					t.Errorf("fault %v, want %v", !test.fault, test.fault)
				}
			}
		})
	}
}

// A hold that ended while no daemon was running has no effect, so a port that is unbound for a moment afterwards counts
// as new.
func TestEndedHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := withFlaps(5)
		cfg.RecoveryHold = 10 * time.Second
		cfg.Remembered = map[string]*inventory.Device{"3b:00.0": {ID: "3b:00.0", Family: "dfl", Memory: &inventory.Memory{
			Holds: []inventory.Hold{{Reason: ap6.Reason, Health: inventory.Unhealthy, Since: time.Now().Add(-cfg.RecoveryHold)}},
		}}}
		family := oneCard(good(0, 0, inventory.Condition{Reason: inventory.ReasonDriverUnbound, Health: inventory.Unhealthy}))
		r := start(t, cfg, family)
		r.want("unbound", map[string]string{"3b:00.0": "unhealthy[driver-unbound]"})
		r.set(cardA, good(0, 0))
		r.want("bound", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// As long as a card's identity is unknown, what is remembered about it is neither used nor dropped.
func TestRememberedOfASlowCard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := withFlaps(5)
		cfg.FlapWindow = time.Hour
		cfg.Remembered = map[string]*inventory.Device{"3b:00.0": {
			ID: "3b:00.0", Family: "dfl", Facts: inventory.Facts{PCIID: "8086:09c4:8086:0000"}, Memory: &inventory.Memory{Turns: []time.Time{time.Now()}, Quarantined: true},
		}}
		family := newFakeFamily("dfl")
		u := good(0, 0)
		u.PCIID = "8086:09c4:8086:0000"
		family.set(cardA, u)
		release := family.hang(cardA)
		r := start(t, cfg, family)
		r.after(10 * time.Second)
		r.want("hangs", map[string]string{"3b:00.0": "unhealthy[read-timeout]"})
		release()
		r.hint(cardA)
		r.after(time.Minute)
		r.want("answers", map[string]string{"3b:00.0": "unhealthy[flapping]"})
	})
}

// Once a card is forgotten, the next card doesn't inherit any of its history, even if the device is still listed or
// hasn't been seen yet.
func TestForget(t *testing.T) {
	flappy := func(t *testing.T, cfg inventory.Config) *rig {
		r := start(t, cfg, oneCard())
		for range 3 {
			r.turn(ap6)
			r.turn()
		}
		r.want("failed", map[string]string{"3b:00.0": "unhealthy[flapping]"})
		return r
	}
	for _, forget := range []bool{false, true} {
		want := map[string]string{"3b:00.0": "unhealthy[flapping]"}
		if forget {
			want["3b:00.0"] = "healthy[]"
		}
		runInBubble(t, fmt.Sprint("still listed, forget=", forget), func(t *testing.T) {
			kubelet := newFakeKubelet()
			kubelet.hold("3b:00.0", pod)
			cfg := withFlaps(5)
			cfg.Holders, cfg.HoldersInterval, cfg.TombstoneGrace = kubelet.ask, 5*time.Second, time.Minute
			r := flappy(t, cfg)
			r.pull(cardA)
			r.after(time.Second)
			r.want("pulled", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
			if forget {
				r.Forget("3b:00.0")
			}
			r.after(time.Second)
			r.want("forgotten", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
			r.set(cardA, good(0, 0))
			r.after(5 * time.Second)
			r.want("another card", want)
		})
		runInBubble(t, fmt.Sprint("absent since the start, forget=", forget), func(t *testing.T) {
			cfg := withFlaps(5)
			cfg.Remembered = remembered(t, flappy(t, cfg))
			r := start(t, cfg, newFakeFamily("dfl"))
			if forget {
				r.Forget("3b:00.0")
			}
			r.after(time.Second)
			r.set(cardA, good(0, 0))
			r.after(5 * time.Second)
			r.want("another card", want)
		})
	}
}
