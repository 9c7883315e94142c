package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestExclude(t *testing.T) {
	all := func(p0, p1, other string) map[string]string {
		return map[string]string{"3b:00.0": p0, "3b:00.0-p1": p1, "0001:5e:00.0": other}
	}
	const in, out = "healthy[]", "unhealthy[excluded]"
	for _, test := range []struct {
		name      string
		exclude   []string
		want      map[string]string
		unmatched []any
	}{
		{"nothing", nil, all(in, in, in), nil},
		{"a card", []string{"3b:00.0"}, all(out, out, in), nil},
		{"port 0", []string{"3b:00.0-p0"}, all(out, in, in), nil},
		{"port 1", []string{"3b:00.0-p1"}, all(in, out, in), nil},
		{"outside domain 0", []string{"0001:5e:00.0"}, all(in, in, out), nil},
		{"another domain", []string{"0001:3b:00.0", "5e:00.0"}, all(in, in, in), []any{"0001:3b:00.0", "5e:00.0"}},
		{"one that is not here", []string{"3b:00.0-p2", "3b:00.0-p1"}, all(in, out, in), []any{"3b:00.0-p2"}},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			f := oneCard(good(0, 0), good(1, 1))
			f.set(cardB, good(2, 0))
			cfg := testConfig
			cfg.Policy.Exclude = map[string]string{}
			for _, id := range test.exclude {
				cfg.Policy.Exclude[id] = inventory.ReasonExcluded
			}
			r := start(t, cfg, f)
			r.want("at first", test.want)
			var unmatched []any
			for _, line := range r.logs.FilterMessage("excluded address has no device").All() {
				unmatched = append(unmatched, line.ContextMap()["devices"].([]any)...)
			}
			compare.Values(t, "addresses without a device in the log", test.unmatched, unmatched)

			r.Use(inventory.Policy{})
			r.after(0)
			s, _ := r.Latest()
			for _, d := range s.Devices {
				if (d.Health == inventory.Healthy) != (len(d.Reasons) == 0) {
					t.Errorf("%s is %s with the reasons %v", d.ID, d.Health, d.Reasons)
				}
			}
			r.after(10 * time.Second)
			r.want("none any more", all(in, in, in))
			r.Use(cfg.Policy)
			r.after(0)
			r.want("at once", test.want)
		})
	}
}

// A card that hangs can be excluded without being read.
func TestExcludeWhileItHangs(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		release := f.hang(cardA)
		defer release()
		r.hint(cardA)
		r.Use(inventory.Policy{Exclude: map[string]string{"3b:00.0": inventory.ReasonExcluded}})
		r.after(0)
		r.want("reading under way", map[string]string{"3b:00.0": "unhealthy[excluded]"})
		r.after(2 * time.Second)
		r.want("timed out", map[string]string{"3b:00.0": "unhealthy[excluded read-timeout]"})
	})
}

// A device that an administrator has excluded has a fault only if it would be unhealthy anyway.
func TestFault(t *testing.T) {
	hot := inventory.Condition{Reason: "alarm-crit=temp1", Row: "alarm-crit", Health: inventory.Unhealthy}
	slow := inventory.Condition{Reason: "power-throttled=1", Row: "power-throttled=1", Health: inventory.Degraded}
	bubble(t, func(t *testing.T) {
		f := oneCard(good(0, 0, slow))
		cfg := testConfig
		cfg.Policy.Exclude = map[string]string{"3b:00.0": inventory.ReasonCordoned}
		r := start(t, cfg, f)
		want := func(when, state string, fault bool) {
			t.Helper()
			r.after(0)
			r.want(when, map[string]string{"3b:00.0": state})
			if s, _ := r.Latest(); s.Devices[0].Fault != fault {
				t.Errorf("%s: found Fault %t, want %t", when, !fault, fault)
			}
		}
		want("cordoned and degraded", "unhealthy[cordoned power-throttled=1]", false)
		r.Use(inventory.Policy{})
		want("degraded", "degraded[power-throttled=1]", false)
		r.Use(cfg.Policy)
		r.set(cardA, good(0, 0, slow, hot))
		want("cordoned and hot", "unhealthy[alarm-crit=temp1 cordoned power-throttled=1]", true)
		r.Use(inventory.Policy{})
		want("hot", "unhealthy[alarm-crit=temp1 power-throttled=1]", true)
		r.set(cardA, good(0, 0, slow))
		want("recovering", "unhealthy[power-throttled=1 recovering=alarm-crit]", false)
		r.pull(cardA)
		r.after(0)
		r.want("gone", map[string]string{})
	})
}

// A policy change doesn't have a latency, because it wasn't caused by a hint.
func TestPolicyHasNoLatency(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		r.hint(cardA)
		r.after(3 * time.Second)
		r.Use(inventory.Policy{Exclude: map[string]string{"3b:00.0": inventory.ReasonExcluded}})
		r.after(0)
		r.want("excluded", map[string]string{"3b:00.0": "unhealthy[excluded]"})
		lines := r.logs.FilterField(logevent.DeviceHealth).All()
		if latency, ok := lines[len(lines)-1].ContextMap()["latency_ms"]; ok {
			t.Errorf("found a latency of %v ms in the line, want none", latency)
		}
		if snapshot, _ := r.Latest(); !snapshot.Hinted.IsZero() {
			t.Errorf("found a hint at %v in the snapshot, want none", snapshot.Hinted)
		}
	})
}

func TestSeverity(t *testing.T) {
	hot := inventory.Condition{Reason: "alarm-crit=temp1", Row: "alarm-crit", Health: inventory.Unhealthy}
	slow := inventory.Condition{Reason: "power-throttled=1", Row: "power-throttled=1", Health: inventory.Degraded}
	dark := inventory.Condition{Reason: "unreadable=power_state", Row: "power-throttled=6", Health: inventory.Unhealthy}
	for _, test := range []struct {
		name     string
		severity map[string]inventory.Health
		read     inventory.Condition
		want     string
	}{
		{"as the table has it", nil, hot, "unhealthy[alarm-crit=temp1]"},
		{"less", map[string]inventory.Health{"alarm-crit": inventory.Degraded}, hot, "degraded[alarm-crit=temp1]"},
		{"not at all", map[string]inventory.Health{"alarm-crit": inventory.Healthy}, hot, "healthy[]"},
		{"more", map[string]inventory.Health{"power-throttled=1": inventory.Unhealthy}, slow, "unhealthy[power-throttled=1]"},
		{"by name", map[string]inventory.Health{"power-throttled": inventory.Unhealthy}, slow, "unhealthy[power-throttled=1]"},
		{"the value before the name", map[string]inventory.Health{"power-throttled": inventory.Unhealthy, "power-throttled=1": inventory.Healthy},
			slow, "healthy[]"},
		{"another value", map[string]inventory.Health{"power-throttled=2": inventory.Unhealthy}, slow, "degraded[power-throttled=1]"},
		{"of a file that cannot be read", map[string]inventory.Health{"power-throttled=6": inventory.Degraded}, dark, "degraded[unreadable=power_state]"},
		{"of a reason that cannot be overruled", map[string]inventory.Health{"driver-unbound": inventory.Healthy, "": inventory.Healthy}, unbound, "unhealthy[driver-unbound]"},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			f := oneCard(good(0, 0, test.read))
			cfg := testConfig
			cfg.Policy.Severity = test.severity
			r := start(t, cfg, f)
			r.want("from the start", map[string]string{"3b:00.0": test.want})
		})
	}
}

// A current condition gets its new severity immediately, even if the severity changed while no daemon was running.
func TestSeverityChanges(t *testing.T) {
	for _, test := range []struct {
		name          string
		row           inventory.Health
		before, after map[string]inventory.Health
		want          string
	}{
		{"less", inventory.Unhealthy, nil, map[string]inventory.Health{"link-width": inventory.Degraded}, "degraded[link-width]"},
		{"not at all", inventory.Unhealthy, nil, map[string]inventory.Health{"link-width": inventory.Healthy}, "healthy[]"},
		{"no longer more", inventory.Degraded, map[string]inventory.Health{"link-width": inventory.Unhealthy}, nil, "degraded[link-width]"},
		{"more", inventory.Degraded, nil, map[string]inventory.Health{"link-width": inventory.Unhealthy}, "unhealthy[link-width]"},
	} {
		for _, restart := range []bool{false, true} {
			runInBubble(t, fmt.Sprintf("%s, restart %t", test.name, restart), func(t *testing.T) {
				narrow := inventory.Condition{Reason: "link-width", Row: "link-width", Health: test.row}
				f := oneCard()
				cfg := testConfig
				cfg.Policy.Severity = test.before
				r := start(t, cfg, f)
				r.set(cardA, good(0, 0, narrow))
				r.after(time.Second)
				if restart {
					cfg.Remembered, cfg.Policy.Severity = remembered(t, r), test.after
					r = start(t, cfg, f)
				} else {
					r.Use(inventory.Policy{Severity: test.after})
					r.after(0)
				}
				r.want("changed", map[string]string{"3b:00.0": test.want})
				r.after(time.Hour)
				r.want("an hour later", map[string]string{"3b:00.0": test.want})
			})
		}
	}
}
