package inventory_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"go.uber.org/zap"
)

func TestBadAtOnceGoodAfterHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, testConfig, f)

		f.set(cardA, good(0, 0, ap6))
		r.hint(cardA)
		r.want("broken", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})

		f.set(cardA, good(0, 0))
		r.hint(cardA)
		r.want("healed, not held", map[string]string{"3b:00.0": "unhealthy[recovering=port-ap6]"})
		r.after(10*time.Second - time.Millisecond)
		r.want("just before the hold ends", map[string]string{"3b:00.0": "unhealthy[recovering=port-ap6]"})
		r.after(time.Millisecond)
		r.want("held", map[string]string{"3b:00.0": "healthy[]"})
	})
}

func TestRelapseStartsTheHoldAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, testConfig, f)
		f.set(cardA, good(0, 0, ap6))
		r.hint(cardA)
		f.set(cardA, good(0, 0))
		r.hint(cardA)
		r.after(9 * time.Second)
		f.set(cardA, good(0, 0, ap6))
		r.hint(cardA)
		r.want("relapsed", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
		f.set(cardA, good(0, 0))
		r.hint(cardA)
		r.after(9 * time.Second)
		r.want("first hold over, second not", map[string]string{"3b:00.0": "unhealthy[recovering=port-ap6]"})
		r.after(time.Second)
		r.want("second hold over", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// At the end of the hold the card is read once more, and that reading decides.
func TestHoldEndsWithAReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := testConfig
		cfg.HealthInterval, cfg.ResyncInterval = time.Hour, time.Hour
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, cfg, f)
		f.set(cardA, good(0, 0, ap6))
		r.hint(cardA)
		f.set(cardA, good(0, 0))
		r.hint(cardA)
		f.set(cardA, good(0, 0, ap6)) // without a hint
		r.after(10 * time.Second)
		r.want("broken again without a hint", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
	})
}

// A new port is unbound for some milliseconds. It was not offered yet, so it is healthy at its first
// good reading.
func TestNewDeviceNeedsNoHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		r := start(t, testConfig, f)
		f.set(cardA, good(0, 0, unbound))
		r.hint(cardA)
		r.want("added, unbound", map[string]string{"3b:00.0": "unhealthy[driver-unbound]"})
		f.set(cardA, good(0, 0))
		r.hint(cardA)
		r.want("bound", map[string]string{"3b:00.0": "healthy[]"})
	})
}

func TestNoHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := testConfig
		cfg.RecoveryHold = 0
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, cfg, f)
		f.set(cardA, good(0, 0, ap6))
		r.hint(cardA)
		f.set(cardA, good(0, 0))
		r.hint(cardA)
		r.want("healed", map[string]string{"3b:00.0": "healthy[]"})
	})
}

func TestHealthIsPolled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, testConfig, f)
		f.set(cardA, good(0, 0, ap6)) // errors cause no event
		r.after(5 * time.Second)
		r.want("one health interval later", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
	})
}

func TestReprogramming(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, testConfig, f)

		p := good(0, 0, busy)
		p.AFUID, p.AFUIDKnown = "", false
		f.set(cardA, p)
		r.hint(cardA)
		r.want("EBUSY", map[string]string{"3b:00.0": "degraded[reprogramming]"})
		if s, _ := r.Latest(); s.Devices[0].AFUID != afu1 {
			t.Errorf("AFU id while it cannot be read = %q, want the last known %q", s.Devices[0].AFUID, afu1)
		}
		r.after(time.Minute - time.Millisecond)
		r.want("just before the timeout", map[string]string{"3b:00.0": "degraded[reprogramming]"})
		r.after(time.Millisecond)
		r.want("timed out", map[string]string{"3b:00.0": "unhealthy[reprogramming]"})

		p = good(0, 0)
		p.AFUID = afu2
		f.set(cardA, p)
		r.hint(cardA)
		r.want("reprogrammed, not held", map[string]string{"3b:00.0": "unhealthy[recovering=reprogramming]"})
		r.after(10 * time.Second)
		r.want("reprogrammed", map[string]string{"3b:00.0": "healthy[]"})
		if s, _ := r.Latest(); s.Devices[0].AFUID != afu2 {
			t.Errorf("AFU id after reprogramming = %q, want %q", s.Devices[0].AFUID, afu2)
		}
	})
}

func TestHealthFileThatVanishes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		never, lost := good(0, 0), good(1, 1)
		never.Files = []inventory.HealthFile{{Name: "errors/errors", Absent: true, Lost: inventory.Unhealthy}}
		f := newFakeFamily("dfl")
		f.set(cardA, never, lost)
		r := start(t, testConfig, f)
		r.want("the first port never has errors/", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]"})

		lost.Files = []inventory.HealthFile{{Name: "afu_id"}, {Name: "errors/errors", Absent: true, Lost: inventory.Degraded}}
		f.set(cardA, never, lost)
		r.hint(cardA)
		r.want("the second port loses errors/", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "degraded[unreadable=errors/errors]"})

		lost.Incarnation++
		f.set(cardA, never, lost)
		r.hint(cardA)
		r.after(10 * time.Second)
		r.want("a new directory never had errors/", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]"})
	})
}

// Every reason has properties, and a row in docs/health.md.
func TestReasonsAreExplained(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`Reason\w+ += "([a-z0-9-]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 10 {
		t.Fatalf("found %d reasons in reason.go, want all of them", len(reasons))
	}
	for _, m := range reasons {
		if !regexp.MustCompile("(?m)^\\| `" + m[1] + "[`=]").Match(text) {
			t.Errorf("docs/health.md has no row for the reason %s", m[1])
		}
		if m[1] != inventory.ReasonFMEUnbound && !slices.Contains(inventory.Reasons(), m[1]) {
			t.Errorf("the table in reason.go has no line for the reason %s", m[1])
		}
	}
}

// A change that needs action is logged at level warn, a normal change is not.
func TestWarnings(t *testing.T) {
	throttled := inventory.Condition{Reason: "power-throttled=6", Health: inventory.Unhealthy}
	for _, test := range []struct {
		name   string
		before []inventory.Unit // before the start; nil: no card
		after  []inventory.Unit
		warns  int
	}{
		{"plugged in", nil, []inventory.Unit{good(0, 0, unbound)}, 0},
		{"plugged in, broken", nil, []inventory.Unit{good(0, 0, ap6)}, 1},
		{"broken at the start", []inventory.Unit{good(0, 0, ap6)}, nil, 1},
		{"unbound at the start", []inventory.Unit{good(0, 0, unbound)}, nil, 1},
		{"healthy", []inventory.Unit{good(0, 0)}, nil, 0},
		{"breaks", []inventory.Unit{good(0, 0)}, []inventory.Unit{good(0, 0, ap6)}, 1},
		{"more trouble", []inventory.Unit{good(0, 0, ap6)}, []inventory.Unit{good(0, 0, ap6, throttled)}, 2},
		{"less trouble", []inventory.Unit{good(0, 0, ap6, throttled)}, []inventory.Unit{good(0, 0, ap6)}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeFamily("dfl")
				if test.before != nil {
					f.set(cardA, test.before...)
				}
				r := start(t, testConfig, f)
				if test.after != nil {
					f.set(cardA, test.after...)
					r.hint(cardA)
				}
				if got := r.logs.FilterLevelExact(zap.WarnLevel).Len(); got != test.warns {
					t.Errorf("%d warnings, want %d: %v", got, test.warns, r.logs.FilterLevelExact(zap.WarnLevel).All())
				}
			})
		})
	}
}

// A passing condition that makes a device unhealthy is no fault and no turn until it has lasted for the reprogram timeout.
func TestPassingUnhealthy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := withFlaps(1)
		cfg.ReprogramTimeout = 30 * time.Second
		f := newFakeFamily("xrt")
		f.set(cardA, good(0, 0))
		r := start(t, cfg, f)
		resetting := inventory.Condition{Reason: "resetting", Row: "resetting", Health: inventory.Unhealthy, Passing: true}
		fault := func(when string, want bool) {
			s, _ := r.Latest()
			if got := s.Device("3b:00.0").Fault; got != want {
				t.Errorf("%s: fault %v, want %v", when, got, want)
			}
		}
		for range 5 {
			f.set(cardA, good(0, 0, resetting))
			r.hint(cardA)
			r.want("resetting", map[string]string{"3b:00.0": "unhealthy[resetting]"})
			fault("resetting", false)
			r.turn()
			r.want("reset", map[string]string{"3b:00.0": "healthy[]"})
		}
		f.set(cardA, good(0, 0, resetting))
		r.hint(cardA)
		r.after(30 * time.Second)
		r.want("too long", map[string]string{"3b:00.0": "unhealthy[resetting]"})
		fault("too long", true)
		r.turn() // the second turn
		r.want("reset after all", map[string]string{"3b:00.0": "unhealthy[flapping]"})
	})
}
