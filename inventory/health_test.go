package inventory_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"

	"go.uber.org/zap"
)

// Every reason has properties, and a row in docs/health.md.
func TestReasonsAreExplained(t *testing.T) {
	source := must.Value(os.ReadFile("reason.go"))(t)
	text := must.Value(os.ReadFile("../docs/health.md"))(t)
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

// Changes that need action are logged as warnings. Normal changes aren't.
func TestWarnings(t *testing.T) {
	throttled := inventory.Condition{Reason: "power-throttled=6", Health: inventory.Unhealthy}
	for _, test := range []struct {
		name   string
		before []inventory.Unit // before startup; nil: no card
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
		runInBubble(t, test.name, func(t *testing.T) {
			f := newFakeFamily("dfl")
			if test.before != nil {
				f.set(cardA, test.before...)
			}
			r := start(t, testConfig, f)
			if test.after != nil {
				r.set(cardA, test.after...)
			}
			compare.Equal(t, "warnings", test.warns, r.logs.FilterLevelExact(zap.WarnLevel).Len())
		})
	}
}

// withFlaps returns a configuration with this flap limit.
func withFlaps(limit int) inventory.Config {
	cfg := testConfig
	cfg.RecoveryHold, cfg.FlapLimit, cfg.FlapWindow = time.Second, limit, time.Minute
	cfg.HealthInterval = time.Hour
	return cfg
}

// turn breaks or repairs the card, and waits for the hold to end.
func (r *rig) turn(bad ...inventory.Condition) {
	r.family.set(cardA, good(0, 0, bad...))
	r.hint(cardA)
	r.after(time.Second)
}
