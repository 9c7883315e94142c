package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// bad returns an unhealthy device with these reasons. cause is the reason that is its fault, or "".
func bad(id, cause string, reasons ...string) *inventory.Device {
	return device(id, func(d *inventory.Device) {
		d.Health, d.Fault, d.Cause, d.Reasons = inventory.Unhealthy, cause != "", cause, reasons
	})
}

// stored returns the history of the first card in the file: its counts of failures, health changes and removals,
// followed by its changes as DEVICE HEALTH REASON. Those that count are marked with a *.
func (r *rig) stored() string {
	r.Helper()
	var file struct {
		Cards []struct {
			Failures, HealthChanges, Removals int
			Recent                            []struct {
				Device, To, Reason string
				OfCard             bool
			}
		}
	}
	must.Succeed(r, json.Unmarshal([]byte(r.file()), &file))
	c := file.Cards[0]
	text := fmt.Sprintf("%d %d %d", c.Failures, c.HealthChanges, c.Removals)
	for _, t := range c.Recent {
		mark := ""
		if t.OfCard {
			mark = "*"
		}
		text += "; " + strings.TrimSpace(fmt.Sprintf("%s %s%s %s", t.Device, t.To, mark, t.Reason))
	}
	return text
}

// TestNoted checks what is recorded about the first card after these snapshots, which are a tenth of a second apart.
func TestNoted(t *testing.T) {
	const card, port = "3b:00.0", "3b:00.0-p1"
	type lists = [][]*inventory.Device
	rest := healthy("5e:00.0")
	in := func(devices ...*inventory.Device) []*inventory.Device { return append(devices, rest) }
	quarantined := func(cause string, isBad bool) *inventory.Device {
		d := bad(card, cause, strings.Fields("flapping "+cause)...)
		d.Memory = &inventory.Memory{Quarantined: true, Bad: isBad, Turns: []time.Time{time.Now()}}
		return d
	}
	degraded := func(cause string, reasons ...string) *inventory.Device {
		return device(card, func(d *inventory.Device) { d.Health, d.Cause, d.Reasons = inventory.Degraded, cause, reasons })
	}
	halfRemoved := bad(card, "fme-unbound", "fme-unbound", "node-missing", "unreadable=id")
	for _, test := range []struct {
		name  string
		lists lists
		want  string
	}{
		{"pulled", lists{in(halfRemoved), in()}, "0 0 1"},
		{"pulled, and held", lists{in(halfRemoved), in(bad(card, "", inventory.ReasonRemovedInUse))}, "0 0 1"},
		{"pulled while cordoned", lists{in(bad(card, "", "cordoned")), in(bad(card, "fme-unbound", "cordoned", "fme-unbound")), in()}, "0 0 1"},
		{"pulled with two ports", lists{in(healthy(card), healthy(port)), in(bad(card, "node-missing", "node-missing"), healthy(port)),
			in(bad(card, "node-missing", "node-missing"), bad(port, "unreadable=id", "unreadable=id")), in()}, "0 0 1"},
		{"pulled with a port that is broken", lists{in(healthy(card), healthy(port)), in(healthy(card), bad(port, "port-ap6", "port-ap6")),
			in(halfRemoved, bad(port, "port-ap6", "port-ap6")), in()}, "1 1 1; 3b:00.0-p1 unhealthy* port-ap6"},
		{"pulled with a port that is broken, whose reasons change, too", lists{in(healthy(card), healthy(port)), in(healthy(card), bad(port, "port-ap6", "port-ap6")),
			in(halfRemoved, bad(port, "port-ap6", "node-missing", "port-ap6")), in()}, "1 1 1; 3b:00.0-p1 unhealthy* port-ap6"},
		{"pulled, and degraded first", lists{in(degraded("unreadable=id", "unreadable=id")), in(halfRemoved), in()}, "0 0 1"},
		{"pulled with two ports, one of which is only degraded", lists{in(healthy(card), healthy(port)), in(healthy(card), bad(port, "node-missing", "node-missing")),
			in(degraded("unreadable=id", "unreadable=id"), bad(port, "node-missing", "node-missing")), in()}, "0 0 1"},
		{"pulled with two ports, one after the other", lists{in(healthy(card), healthy(port)), in(bad(card, "node-missing", "node-missing"), healthy(port)),
			in(healthy(port)), in(bad(port, "node-missing", "node-missing")), in()}, "0 0 1"},
		{"degraded by a step, then fails", lists{in(degraded("unreadable=id", "unreadable=id")), in(halfRemoved), in(bad(card, "aer-fatal", "aer-fatal", "fme-unbound")), in()},
			"1 2 1; 3b:00.0 degraded* unreadable=id; 3b:00.0 unhealthy* aer-fatal"},
		{"pulled while throttled", lists{in(degraded("power-throttled=1", "power-throttled=1")), in(halfRemoved), in()},
			"0 1 1; 3b:00.0 degraded* power-throttled=1"},
		{"fails and leaves", lists{in(bad(card, "aer-fatal", "aer-fatal", "fme-unbound")), in()}, "1 1 1; 3b:00.0 unhealthy* aer-fatal"},
		{"fails, is removed by the kernel and leaves", lists{in(bad(card, "aer-fatal", "aer-fatal")), in(bad(card, "aer-fatal", "aer-fatal", "fme-unbound")), in()},
			"1 1 1; 3b:00.0 unhealthy* aer-fatal"},
		{"loses its drivers, then the error is found", lists{in(halfRemoved), in(bad(card, "aer-fatal", "aer-fatal", "fme-unbound")), in()},
			"1 1 1; 3b:00.0 unhealthy* aer-fatal"},
		{"only unbound, and bound again", lists{in(halfRemoved), in(healthy(card))}, "1 2 0; 3b:00.0 unhealthy* fme-unbound; 3b:00.0 healthy*"},
		{"breaks while cordoned", lists{in(bad(card, "", "cordoned")), in(bad(card, "port-ap6", "cordoned", "port-ap6"))}, "1 1 0; 3b:00.0 unhealthy* port-ap6"},
		{"cordoned, excluded and programmed", lists{in(bad(card, "", "cordoned")), in(healthy(card)), in(bad(card, "", "excluded")), in(healthy(card)),
			in(degraded("", "reprogramming")), in(degraded("", "recovering=reprogramming")), in(healthy(card))}, "0 0 0"},
		{"degraded after a failure, then fails again", lists{in(broken(card)), in(degraded("", "recovering=port-ap6")), in(broken(card))},
			"2 3 0; 3b:00.0 unhealthy* port-ap6; 3b:00.0 degraded*; 3b:00.0 unhealthy* port-ap6"},
		{"two ports", lists{in(healthy(card), healthy(port)), in(broken(card), healthy(port)), in(broken(card), broken(port)), in(broken(card), healthy(port)), in(healthy(card), healthy(port))},
			"1 2 0; 3b:00.0 unhealthy* port-ap6; 3b:00.0-p1 unhealthy port-ap6; 3b:00.0-p1 healthy; 3b:00.0 healthy*"},
		{"fails in quarantine", lists{in(quarantined("port-ap6", true)), in(quarantined("", true)), in(quarantined("", false)), in(quarantined("aer-fatal", true)), in(quarantined("", false)), in(healthy(card))},
			"2 4 0; 3b:00.0 unhealthy* port-ap6; 3b:00.0 healthy*; 3b:00.0 unhealthy* aer-fatal; 3b:00.0 healthy*"},
	} {
		t.Run(test.name, func(t *testing.T) {
			onNode(t, func(r *rig) {
				r.start(in(healthy(card))...)
				metric := 0
				for _, devices := range test.lists {
					r.list(devices...)
					wait(100 * time.Millisecond)
					n := r.ledger.Counts()[0].HealthChanges
					if n < metric {
						r.Errorf("the metric falls from %d to %d", metric, n)
					}
					metric = n
				}
				wait(2 * time.Second)
				compare.Equal(r, "history", test.want, r.stored())
				wait(settled)
				compare.Equal(r, "changes in the metric", strings.Fields(test.want)[1], fmt.Sprint(r.ledger.Counts()[0].HealthChanges))
			})
		})
	}
}

// Something that could be a step of a removal is written to disk immediately. After 10 s or a restart, it is definitely
// a failure.
func TestNoRemovalFollows(t *testing.T) {
	const failed = "; 3b:00.0 unhealthy* unreadable=id"
	unreadable := bad("3b:00.0", "unreadable=id", "unreadable=id")
	unreadable.Memory = &inventory.Memory{Bad: true}
	for _, restarts := range []bool{false, true} {
		onNode(t, func(r *rig) {
			r.start(healthy("3b:00.0"))
			wait(time.Minute)
			r.list(unreadable)
			wait(time.Millisecond)
			compare.Equal(r, "at once", "1 1 0"+failed, r.stored())
			if restarts {
				r.start(unreadable)
			} else {
				wait(settled)
			}
			r.list()
			wait(time.Second)
			compare.Equal(r, fmt.Sprintf("removed, restarts %v", restarts), "1 1 1"+failed, r.stored())
		})
	}
}

// The time of the last removal is remembered.
func TestLastRemoved(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"))
		compare.Equal(r, "before", time.Time{}, r.ledger.History()[0].Removed)
		wait(time.Hour)
		r.list()
		at := time.Now().UTC()
		r.list(healthy("3b:00.0"))
		wait(time.Hour)
		r.start(healthy("3b:00.0"))
		compare.Equal(r, "last removed", at, r.ledger.History()[0].Removed)
	})
}

// An older daemon didn't count failures. When its file is read, they are counted from the changes in it.
func TestOlderFile(t *testing.T) {
	turn := func(second int, device, from, to string) string {
		return fmt.Sprintf(`{"time":"2026-11-22T10:21:%02dZ","device":%q,"from":%q,"to":%q}`, second, device, from, to)
	}
	text := `{"version":1,"cards":[{"card":"3b:00.0","firstSeen":"2026-11-20T03:12:00Z","lastSeen":"2026-11-22T10:22:00Z","expected":true,"healthChanges":9,"removals":1,"recent":[` +
		turn(1, "3b:00.0", "healthy", "unhealthy") + "," + turn(1, "3b:00.0-p1", "healthy", "unhealthy") + "," +
		turn(2, "3b:00.0", "unhealthy", "healthy") + "," + turn(3, "3b:00.0", "healthy", "unhealthy") + `]}]}`
	written, _, err := ledger.Parse([]byte(text))
	if err != nil || !strings.Contains(string(written), `"failures":2`) || strings.Count(string(written), `"ofCard":true`) != 3 {
		t.Errorf("%v, written again: %s, want 2 failures and 3 changes of the card", err, written)
	}
	counted := strings.Replace(text, `"removals":1`, `"failures":0,"removals":1`, 1) // its changes are from ports of a card that was already broken
	if again, _, err := ledger.Parse([]byte(counted)); err != nil || !strings.Contains(string(again), `"failures":0`) || strings.Contains(string(again), "ofCard") {
		t.Errorf("%v, a newer file, written again: %s, want no change", err, again)
	}
	if again, _, err := ledger.Parse(written); err != nil || string(again) != string(written) {
		t.Errorf("%v, once more: %s, want no change", err, again)
	}
}
