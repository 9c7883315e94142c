package ledger_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// A card that is absent after startup counts as missing until it returns, even across further restarts.
func TestMissing(t *testing.T) {
	onNode(t, func(r *rig) {
		r.startAndSettle(healthy("3b:00.0"), healthy("5e:00.0"), healthy("5e:00.0-p1"))
		r.expect("first start", "", "")

		r.start(healthy("3b:00.0"))
		wait(settled - 2*time.Second)
		r.expect("drivers may still find it", "", "")
		r.expectAwaited(1)
		_, changed := r.ledger.Missing()
		wait(2 * time.Second)
		compare.Values(r, "lasted_ms of a card that is only now missing", nil, r.logs.All()[0].ContextMap()["lasted_ms"])
		r.expect("a card less", "5e:00.0", "device.missing 5e:00.0")
		r.expectAwaited(0)
		<-changed
		all, _ := r.ledger.Missing()
		since := all[0].Since
		compare.Values(r, "missing cards", []ledger.Missing{{Card: "5e:00.0", Since: time.Now().UTC().Add(-time.Second), Model: model}}, all)
		wait(time.Second)

		r.startAndSettle(healthy("3b:00.0"))
		r.expect("another start", "5e:00.0", "device.missing 5e:00.0")
		all, _ = r.ledger.Missing()
		compare.Equal(r, "since", since, all[0].Since)
		r.expectCounts(metrics.Card{Address: "3b:00.0"}, metrics.Card{Address: "5e:00.0", Missing: true})
		r.list(healthy("3b:00.0"), healthy("5e:00.0"))
		r.expect("back", "", "device.returned 5e:00.0")
		wait(time.Second)
		r.startAndSettle(healthy("3b:00.0"), healthy("5e:00.0"))
		r.expect("as before", "", "")
	})
}

// A card that was missing before may be back at the next start, so it doesn't count as missing again until all cards
// have been read.
func TestMissingBefore(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("5e:00.0"), healthy("af:00.0"))
		r.startAndSettle(healthy("3b:00.0"))
		r.expect("before", "5e:00.0 af:00.0", "device.missing 5e:00.0; device.missing af:00.0")
		r.stop()

		r.open(inventory.Snapshot{Version: 1})
		wait(time.Second)
		r.expect("not all cards have been read", "", "")
		r.expectAwaited(3) // otherwise it would look as if no card was missing
		r.list(healthy("3b:00.0"), healthy("5e:00.0"))
		r.expect("one is back", "af:00.0", "device.returned 5e:00.0")
	})
}

// A card counts as missing even if the only remaining card isn't an expected one, because not all addresses have
// changed.
func TestMissingBesideUnexpected(t *testing.T) {
	for _, reason := range []string{inventory.ReasonCordoned, inventory.ReasonExcluded} {
		onNode(t, func(r *rig) {
			other := because("5e:00.0", reason)
			r.start(healthy("3b:00.0"), other)
			r.startAndSettle(other)
			r.expect(reason, "3b:00.0", "device.missing 3b:00.0")
		})
	}
}

// TestNotMissing lists cards that don't count as missing.
func TestNotMissing(t *testing.T) {
	rest := healthy("3b:00.0")
	wanted := func(edit func(*inventory.Device)) []*inventory.Device {
		return []*inventory.Device{rest, device("5e:00.0", edit)}
	}
	for _, tc := range []struct {
		name   string
		before func(*rig)
		during func(*rig) // while no daemon is running
		after  []*inventory.Device
		events string
	}{
		{"pulled while watched", func(r *rig) {
			r.list(wanted(nil)...)
			r.list(rest)
		}, nil, []*inventory.Device{rest}, ""},
		{"pulled while watched, and held", func(r *rig) {
			r.list(wanted(nil)...)
			r.list(rest, because("5e:00.0", inventory.ReasonRemovedInUse))
		}, nil, []*inventory.Device{rest}, ""},
		{"cordoned before", func(r *rig) { r.list(rest, because("5e:00.0", inventory.ReasonCordoned)) }, nil, []*inventory.Device{rest}, ""},
		{"excluded before", func(r *rig) { r.list(rest, because("5e:00.0", inventory.ReasonExcluded)) }, nil, []*inventory.Device{rest}, ""},
		{"no rule names it", func(r *rig) {
			r.list(wanted(func(d *inventory.Device) { d.OnlyByRule, d.OfferedAs = true, "" })...)
		}, nil, []*inventory.Device{rest}, ""},
		{"a virtual function", func(r *rig) {
			r.list(wanted(func(d *inventory.Device) {
				d.Attributes = map[string]string{inventory.AttributePhysicalFunction: "0000:3b:00.0"}
			})...)
		}, nil, []*inventory.Device{rest}, ""},
		{"nobody expects it now", func(r *rig) { r.list(wanted(nil)...) }, func(r *rig) { r.exempt.Store("5e:00.0") }, []*inventory.Device{rest}, ""},
		{"another machine", func(r *rig) { r.list(wanted(nil)...) }, func(r *rig) { r.machine = "other" }, []*inventory.Device{rest}, "ledger.begun"},
		{"all addresses differ", func(r *rig) { r.list(wanted(nil)...) }, nil, []*inventory.Device{healthy("17:00.0"), healthy("af:00.0")}, "ledger.begun"},
		{"another card in the slot", func(r *rig) { r.list(wanted(nil)...) }, nil, wanted(func(d *inventory.Device) { d.PCIID = "10ee:5000:10ee:000e" }), ""},
		{"another mode", func(r *rig) {
			r.list(wanted(nil)...)
			r.devices.Update(func(s inventory.Snapshot) inventory.Snapshot {
				return inventory.Snapshot{Version: s.Version + 1, Devices: []*inventory.Device{device("0", nil)}, Complete: true, Generation: 1}
			})
		}, nil, []*inventory.Device{rest}, ""},
		{"units of a pool", func(r *rig) { r.list(device("7", nil), rest) }, nil, []*inventory.Device{rest}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onNode(t, func(r *rig) {
				r.machine = "this"
				r.start()
				tc.before(r)
				wait(settled)
				r.stop()
				if tc.during != nil {
					tc.during(r)
				}
				r.startAndSettle(tc.after...)
				r.expect("after", "", tc.events)
				r.startAndSettle(tc.after...)
				r.expect("another start", "", "")
			})
		})
	}
	t.Run("not all cards have been read", func(t *testing.T) {
		onNode(t, func(r *rig) {
			r.start(wanted(nil)...)
			r.stop()
			r.open(inventory.Snapshot{Version: 1})
			wait(time.Hour)
			r.expect("incomplete", "", "")
			r.list()
			wait(settled)
			r.expect("complete, and no card is left", "3b:00.0 5e:00.0", "device.missing 3b:00.0; device.missing 5e:00.0")
		})
	})
}

// If the buses were renumbered and a card is now at a different address, it isn't missing if its serial number
// identifies it.
func TestRenumbered(t *testing.T) {
	onNode(t, func(r *rig) {
		card := func(id, serial string) *inventory.Device {
			return device(id, func(d *inventory.Device) { d.Attributes = map[string]string{inventory.AttributeSerialNumber: serial} })
		}
		r.start(card("17:00.0", "1"), card("3b:00.0", "2"), card("5e:00.0", "3"))
		r.list(broken("17:00.0"), broken("3b:00.0"), broken("5e:00.0"))
		r.startAndSettle(card("17:00.0", "1"), card("3c:00.0", "2"), card("5f:00.0", "4"))
		r.expect("one has moved, one was replaced", "5e:00.0", "device.missing 5e:00.0")
		wait(time.Second)
		r.stop()
		if text := r.file(); strings.Contains(text, `"3b:00.0"`) || strings.Count(text, `"healthChanges":1`) != 3 {
			r.Errorf("file %s, want the history of three cards, one at its new address", text)
		}
	})
}

// If a card's PCI function is on the bus and only its driver is late, the card doesn't count as missing for up to an
// hour.
func TestLateDriver(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("5e:00.0"))
		r.stop()
		r.onBus.Store("5e:00.0")
		r.start(healthy("af:00.0")) // a new card, which doesn't mean that all addresses have changed
		wait(10 * time.Minute)
		r.expect("late", "3b:00.0", "device.missing 3b:00.0")
		r.list(healthy("af:00.0"), healthy("5e:00.0"))
		r.expect("bound", "3b:00.0", "")

		r.startAndSettle(healthy("af:00.0"))
		r.expect("late again", "3b:00.0", "device.missing 3b:00.0")
		r.onBus.Store("")
		wait(time.Minute)
		r.expect("it has left the bus", "3b:00.0 5e:00.0", "device.missing 5e:00.0")
		wait(time.Hour)
		r.expect("later", "3b:00.0 5e:00.0", "")
		r.stop()

		r.onBus.Store("5e:00.0")
		r.start(healthy("af:00.0"))
		r.expect("it is back on the bus", "3b:00.0", "device.returned 5e:00.0")
		wait(10 * time.Minute)
		r.expect("late once more", "3b:00.0", "device.missing 3b:00.0")
		r.list(healthy("af:00.0"), healthy("5e:00.0"))
		r.expect("bound", "3b:00.0", "")

		r.start(healthy("af:00.0"))
		wait(time.Hour)
		r.expect("an hour", "3b:00.0", "device.missing 3b:00.0")
		wait(2 * time.Minute)
		r.expect("no driver binds", "3b:00.0 5e:00.0", "device.missing 5e:00.0")
	})
}

// While a missing card is cordoned or excluded, it doesn't count as missing.
func TestExemptLater(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("5e:00.0"), healthy("af:00.0"))
		r.start(healthy("3b:00.0"))
		r.exempts("")
		r.expect("too early", "", "")
		wait(settled)
		r.expect("missing", "5e:00.0 af:00.0", "device.missing 5e:00.0; device.missing af:00.0")
		r.exempts("5e:00.0")
		r.expect("cordoned", "af:00.0", "")
		r.exempts("")
		r.expect("expected again", "5e:00.0 af:00.0", "device.missing 5e:00.0")
	})
}

// A card that had a fault when it disappeared has probably failed completely. A card that is pulled may have a fault
// for a moment.
func TestFailed(t *testing.T) {
	for _, test := range []struct {
		name    string
		bad     *inventory.Device
		lasts   time.Duration
		missing bool
	}{
		{"fault", broken("5e:00.0"), settled, true},
		{"quarantine", because("5e:00.0", inventory.ReasonFlapping), settled, true},
		{"fault, and its driver is unbound", broken("5e:00.0"), settled, false},
		{"fault while it is pulled", broken("5e:00.0"), time.Second, false},
		{"fault of a cordoned card", because("5e:00.0", inventory.ReasonCordoned, inventory.ReasonFlapping), settled, false},
		{"recovering", because("5e:00.0", "recovering=port-ap6"), settled, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			onNode(t, func(r *rig) {
				r.start(healthy("3b:00.0"), healthy("5e:00.0"))
				r.list(healthy("3b:00.0"), test.bad)
				wait(test.lasts)
				if strings.Contains(test.name, "driver") {
					r.onBus.Store("5e:00.0")
				}
				r.list(healthy("3b:00.0"))
				missing, event := "", ""
				if test.missing {
					missing, event = "5e:00.0", "device.missing 5e:00.0"
				}
				r.expect("left", missing, event)
				wait(time.Second)
				r.startAndSettle(healthy("3b:00.0"))
				r.expect("another start", missing, event)
				r.list(healthy("3b:00.0"), healthy("5e:00.0"))
				if event != "" {
					event = "device.returned 5e:00.0"
				}
				r.expect("plugged", "", event)
			})
		})
	}
}

// A card that had a fault before the daemon restarted and fails completely soon afterwards is missing.
func TestFailedAfterRestart(t *testing.T) {
	onNode(t, func(r *rig) {
		bad := wasBad(broken("5e:00.0"))
		r.start(healthy("3b:00.0"), healthy("5e:00.0"))
		r.list(healthy("3b:00.0"), bad)
		wait(time.Hour)
		r.start(healthy("3b:00.0"), bad)
		wait(time.Second)
		r.list(healthy("3b:00.0"))
		r.expect("left", "5e:00.0", "device.missing 5e:00.0")
	})
}

// A card with a fault that loses its driver is still expected for an hour, unless it is bound to a driver for virtual
// machines.
func TestFailedWithoutDriver(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("5e:00.0"))
		r.list(healthy("3b:00.0"), broken("5e:00.0"))
		wait(2 * time.Hour)
		r.onBus.Store("5e:00.0")
		r.list(healthy("3b:00.0"))
		r.exempts("5e:00.0")
		r.expectAwaited(0)
		r.exempts("")
		wait(50 * time.Minute)
		r.expectAwaited(1)
		r.expect("its driver is late", "", "")
		wait(15 * time.Minute)
		r.expect("an hour", "5e:00.0", "device.missing 5e:00.0")
		r.list(healthy("3b:00.0"), broken("5e:00.0"))
		r.expect("bound", "", "device.returned 5e:00.0")
		wait(time.Second)
		r.list(healthy("3b:00.0")) // its previous fault doesn't count
		r.expectAwaited(0)
	})
}

// A failed card that is moved to another slot is recognized there by its serial number.
func TestReseated(t *testing.T) {
	onNode(t, func(r *rig) {
		card := func(id, serial string, fault bool) *inventory.Device {
			return device(id, func(d *inventory.Device) {
				d.Attributes = map[string]string{inventory.AttributeSerialNumber: serial}
				if fault {
					d.Health, d.Fault, d.Reasons = inventory.Unhealthy, true, []string{"device-bad-state"}
				}
			})
		}
		rest := card("3b:00.0", "1", false)
		r.start(rest, card("5e:00.0", "2", false))
		r.list(rest, card("5e:00.0", "2", true))
		wait(settled)
		r.list(rest)
		r.expect("left", "5e:00.0", "device.missing 5e:00.0")
		r.list(rest, card("af:00.0", "3", false))
		r.expect("another card", "5e:00.0", "")
		r.list(rest, card("af:00.0", "3", false), card("d8:00.0", "2", false))
		r.expect("in another slot", "", "device.returned 5e:00.0")
		r.startAndSettle(rest, card("af:00.0", "3", false), card("d8:00.0", "2", false))
		r.expect("another start", "", "")
	})
}

// While reading a virtual function hangs, it can't be recognized as one. It still isn't expected.
func TestHungVirtualFunction(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), device("3b:00.1", func(d *inventory.Device) {
			d.Attributes = map[string]string{inventory.AttributePhysicalFunction: "0000:3b:00.0"}
		}))
		r.start(healthy("3b:00.0"), device("3b:00.1", func(d *inventory.Device) {
			d.PCIID, d.Health, d.Fault, d.Reasons = "", inventory.Unhealthy, true, []string{inventory.ReasonReadTimeout}
		}))
		wait(settled)
		r.start(healthy("3b:00.0")) // after a reboot without virtual functions
		wait(settled)
		r.expect("rebooted", "", "")
	})
}

func TestForget(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("5e:00.0"))
		r.startAndSettle(healthy("3b:00.0"))
		r.events()
		for address, want := range map[string]string{
			"3b:00.0": "card: found 3b:00.0, which is present, want one that is absent",
			"af:00.0": "card: found af:00.0, want one that this node remembers: 3b:00.0, 5e:00.0",
			"card1":   `card: found "card1", want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0`,
		} {
			compare.Equal(r, address, want, fmt.Sprint(compare.ErrorOf(r.ledger.Forget(r.Context(), address, "alice"))))
		}
		compare.Error(r, "name", "by: found", compare.ErrorOf(r.ledger.Forget(r.Context(), "5e:00.0", "eve\n")))
		forgotten, err := r.ledger.Forget(r.Context(), "0000:5E:00.0", "alice")
		if err != nil || forgotten.Card != "5e:00.0" || forgotten.Since.IsZero() {
			r.Errorf("%v, %v, want 5e:00.0 and since when it is missing", forgotten, err)
		}
		r.expect("forgotten", "", "card.forgotten 5e:00.0")
		wait(time.Second)
		r.startAndSettle(healthy("3b:00.0"))
		r.expect("after a restart", "", "")
	})
}

// A card is forgotten only once the file without it is on disk.
func TestForgetIsStored(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("5e:00.0"))
		r.startAndSettle(healthy("3b:00.0"))
		r.events()
		next := r.dir + "/cards.json.new/x" // something that the file can't replace
		must.Succeed(r, os.MkdirAll(next, 0o700))
		compare.Error(r, "disk that cannot be used", "cards.json.new: ", compare.ErrorOf(r.ledger.Forget(r.Context(), "5e:00.0", "alice")))
		synctest.Wait() // the writer has tried too
		r.expect("disk that cannot be used", "5e:00.0", "ledger.unavailable")
		must.Succeed(r, os.RemoveAll(r.dir+"/cards.json.new"))
		_, err := r.ledger.Forget(r.Context(), "5e:00.0", "alice")
		if text := r.file(); err != nil || strings.Contains(text, "5e:00.0") { // a kill now wouldn't lose anything
			r.Errorf("%v, file %s, want one without the card", err, text)
		}
		r.expect("forgotten", "", "card.forgotten 5e:00.0")
	})
}

// TestHistory checks a card's history in the file and in the metrics.
func TestHistory(t *testing.T) {
	onNode(t, func(r *rig) {
		begin := time.Now().UTC()
		r.start(because("3b:00.0", inventory.ReasonDriverUnbound), because("5e:00.0", inventory.ReasonLoading))
		r.list(broken("3b:00.0"), healthy("5e:00.0")) // it is being plugged in
		for range 25 {
			r.list(healthy("3b:00.0"), healthy("5e:00.0"))
			r.list(because("3b:00.0", inventory.ReasonLoading), because("5e:00.0", inventory.ReasonCordoned))
			r.list(broken("3b:00.0"), healthy("5e:00.0"))
			r.list(because("3b:00.0", "recovering=port-ap6"), healthy("5e:00.0"))
		}
		r.list(healthy("5e:00.0"))
		r.expectCounts(metrics.Card{Address: "3b:00.0", HealthChanges: 49, Removals: 1}, metrics.Card{Address: "5e:00.0"})
		wait(time.Minute)
		r.stop()
		var file struct{ Cards []map[string]any }
		must.Succeed(r, json.Unmarshal([]byte(r.file()), &file))
		recent := file.Cards[0]["recent"].([]any)
		last := map[string]any{"time": begin.Format(time.RFC3339), "device": "3b:00.0", "from": "healthy", "to": "unhealthy", "reason": "port-ap6", "ofCard": true}
		if diff := cmp.Diff(last, recent[len(recent)-1]); diff != "" || len(recent) != 20 {
			r.Errorf("%d changes, want 20; the last one (-want +got):\n%s", len(recent), diff)
		}
		delete(file.Cards[0], "recent")
		wantCards := []map[string]any{
			{"card": "3b:00.0", "pciId": model, "family": "dfl", "firstSeen": begin.Format(time.RFC3339), "lastSeen": begin.Format(time.RFC3339),
				"expected": false, "healthChanges": 49.0, "failures": 25.0, "removals": 1.0, "lastRemoved": begin.Format(time.RFC3339)},
			{"card": "5e:00.0", "pciId": model, "family": "dfl", "firstSeen": begin.Format(time.RFC3339), "lastSeen": begin.Add(time.Minute).Format(time.RFC3339),
				"expected": true, "healthChanges": 0.0, "failures": 0.0, "removals": 0.0},
		}
		compare.Values(r, "cards", wantCards, file.Cards)

		// The metrics start at 0, while the file continues, even for a card that is unhealthy now. Another card in the
		// slot has its own history.
		r.start(healthy("3b:00.0"), device("5e:00.0", func(d *inventory.Device) { d.PCIID = "10ee:5000:10ee:000e" }))
		bad := wasBad(broken("3b:00.0"))
		r.list(bad, device("5e:00.0", func(d *inventory.Device) { d.PCIID = "10ee:5000:10ee:000e" }))
		r.expectCounts(metrics.Card{Address: "3b:00.0", HealthChanges: 1}, metrics.Card{Address: "5e:00.0"})
		r.stop()
		r.expectFile(`"healthChanges":50`, `"former":{"card":"5e:00.0","pciId":"`+model)
		history := r.ledger.History()
		compare.Equal(r, "changes in the history", 20, len(history[0].Recent))
		history[0].Recent = nil
		wantHistory := []ledger.History{{Card: "3b:00.0", Changes: 50, Failures: 26, Removals: 1, Removed: begin}, {Card: "5e:00.0", Recent: []ledger.HealthChange{}, Former: &ledger.Former{PCIID: model, First: begin, Last: begin.Add(time.Minute)}}}
		compare.Values(r, "history", wantHistory, history)
		r.start(bad)
		r.list(healthy("3b:00.0"))
		r.expectCounts(metrics.Card{Address: "3b:00.0", HealthChanges: 1}, metrics.Card{Address: "5e:00.0"})
	})
}

// A card that recovers after a restart counts as changed, even if the daemon sees only the recovery hold.
func TestHistoryOfRecovery(t *testing.T) {
	for _, bad := range []*inventory.Device{broken("3b:00.0"), because("3b:00.0", "recovering=port-ap6"), because("3b:00.0", inventory.ReasonFlapping)} {
		t.Run(bad.Reasons[0], func(t *testing.T) {
			onNode(t, func(r *rig) {
				r.start(wasBad(bad))
				r.list(healthy("3b:00.0"))
				r.expectCounts(metrics.Card{Address: "3b:00.0", HealthChanges: 1})
			})
		})
	}
}

// A card that breaks and recovers has changed twice, however many ports it has and in whatever order they change.
func TestHistoryOfPorts(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("3b:00.0-p1"))
		r.list(broken("3b:00.0"), broken("3b:00.0-p1"))
		r.list(healthy("3b:00.0"), healthy("3b:00.0-p1"))
		r.list(broken("3b:00.0"), healthy("3b:00.0-p1"))
		r.list(broken("3b:00.0"), broken("3b:00.0-p1"))
		r.list(healthy("3b:00.0"), broken("3b:00.0-p1"))
		r.list(healthy("3b:00.0"), healthy("3b:00.0-p1"))
		r.expectCounts(metrics.Card{Address: "3b:00.0", HealthChanges: 4})
	})
}

// The inventory gets back what it has to know about devices. A different card doesn't inherit it.
func TestRemembered(t *testing.T) {
	onNode(t, func(r *rig) {
		at := time.Now()
		memory := &inventory.Memory{Turns: []time.Time{at, at}, Quarantined: true, Holds: []inventory.Hold{{Reason: "port-ap6", Health: inventory.Unhealthy, Since: at}}}
		flapping := device("3b:00.0-p1", func(d *inventory.Device) { d.Health, d.Memory = inventory.Unhealthy, memory })
		r.start(healthy("3b:00.0"), flapping)
		wait(time.Second)
		r.expectFile("quarantined")

		r.start()
		at = at.UTC()
		want := map[string]*inventory.Device{"3b:00.0-p1": {
			ID: "3b:00.0-p1", Family: "dfl", Facts: inventory.Facts{PCIID: model, Attributes: map[string]string{"serialNumber": ""}},
			Memory: &inventory.Memory{Turns: []time.Time{at, at}, Quarantined: true, Holds: []inventory.Hold{{Reason: "port-ap6", Health: inventory.Unhealthy, Since: at}}},
		}}
		compare.Values(r, "remembered devices", want, r.ledger.Remembered())
		// The card responds slowly. Until it has responded, nothing is forgotten.
		r.list(healthy("3b:00.0"), device("3b:00.0-p1", func(d *inventory.Device) { d.PCIID, d.Health = "", inventory.Unhealthy }))
		wait(time.Minute)
		r.stop()
		r.expectFile(`"quarantined":true`)
		r.start(healthy("3b:00.0"), healthy("3b:00.0-p1"))
		wait(time.Second)
		r.stop()
		r.expectFile("!quarantined") // the quarantine has ended

		r.start(healthy("3b:00.0"), flapping)
		r.startAndSettle(healthy("3b:00.0"))
		r.stop()
		r.expectFile("!3b:00.0-p1") // the port is gone and forgotten
	})
}

// The file is written at most once per second, and not at all without a change.
func TestWrites(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("5e:00.0"), healthy("af:00.0"), healthy("d8:00.0"))
		wrote := func() bool { return os.Remove(r.dir+"/cards.json") == nil }
		r.stop()
		r.onBus.Store("d8:00.0") // its driver is late, for almost an hour
		r.startAndSettle(healthy("3b:00.0"), broken("5e:00.0"))
		r.expect("before the hour", "af:00.0", "device.missing af:00.0")
		if !wrote() {
			r.Error("the cards: found no file")
		}
		for range 700 { // health intervals that add up to almost an hour
			wait(5 * time.Second)
			r.list(healthy("3b:00.0"), broken("5e:00.0"))
		}
		if wrote() {
			r.Error("found a write in an idle hour")
		}
		r.list(healthy("3b:00.0"))
		wait(time.Second)
		wrote()
		writes := 0
		for i := range 100 {
			if i%2 == 0 {
				r.list(broken("3b:00.0"))
			} else {
				r.list(healthy("3b:00.0"))
			}
			wait(100 * time.Millisecond)
			if wrote() {
				writes++
			}
		}
		if writes < 9 || writes > 11 {
			r.Errorf("%d writes in 10 s, want 10", writes)
		}
		wait(time.Second)
		if wrote(); r.ledger.Counts()[0].HealthChanges != 100 {
			r.Errorf("counts %v, want 100 changes", r.ledger.Counts())
		}
		r.stop()
		if !wrote() {
			r.Error("the end: found no file")
		}
	})
}

// Cards that come and go are dropped to make room for others. Missing cards are kept the longest.
func TestManyCards(t *testing.T) {
	onNode(t, func(r *rig) {
		r.start(healthy("3b:00.0"), healthy("5e:00.0"))
		r.startAndSettle(healthy("3b:00.0"))
		for i := range 2000 {
			id := fmt.Sprintf("%x:%02x:00.0", 0x10000+i>>8, i&0xff)
			r.list(device(id, func(d *inventory.Device) { d.Memory = &inventory.Memory{Turns: make([]time.Time, 100)} }), healthy("3b:00.0"))
			if i%2 == 0 {
				r.list(device(id, func(d *inventory.Device) { d.Health, d.Fault = inventory.Unhealthy, true }), healthy("3b:00.0"))
			}
		}
		if n := len(r.ledger.Counts()); n != 256 || r.missing() != "5e:00.0" {
			r.Errorf("%d cards, missing %q, want 256 and 5e:00.0", n, r.missing())
		}
		wait(time.Minute)
		if n := len(r.file()); n > 64<<10 {
			r.Errorf("file of %d bytes, want at most 64 KiB", n)
		}
		var all []*inventory.Device
		for i := range 1000 {
			all = append(all, broken(fmt.Sprintf("2%04x:00:00.0", i)))
		}
		r.list(all...)
		r.list(all...)
		compare.Equal(r, "cards", 256, len(r.ledger.Counts()))
		r.start(all...)
		compare.Equal(r, "cards after a restart", 256, len(r.ledger.Counts()))
	})
}

// Virtual functions, which are never expected, don't take room away from cards.
func TestManyVirtualFunctions(t *testing.T) {
	onNode(t, func(r *rig) {
		var functions, cards []*inventory.Device
		for i := range 300 {
			functions = append(functions, device(fmt.Sprintf("%02x:%02x.%d", 0x40+i>>8, i>>3&0x1f, i&7), func(d *inventory.Device) {
				d.Attributes = map[string]string{inventory.AttributePhysicalFunction: "0000:3b:00.0"}
			}))
		}
		for i := range 4 {
			cards = append(cards, healthy(fmt.Sprintf("a%d:00.0", i)))
		}
		r.start(functions...)
		r.list(append(functions, cards...)...)
		r.startAndSettle(functions...)
		r.expect("no card is left", "a0:00.0 a1:00.0 a2:00.0 a3:00.0", "device.missing a0:00.0; device.missing a1:00.0; device.missing a2:00.0; device.missing a3:00.0")
	})
}

// If the file doesn't have room for all cards, those without a quarantine are left out first.
func TestManyQuarantines(t *testing.T) {
	onNode(t, func(r *rig) {
		var turns []time.Time
		for i := range 6 {
			turns = append(turns, time.Now().Add(time.Duration(i)*time.Second))
		}
		over := time.Now().UTC()
		holds := []inventory.Hold{{Reason: "a", Health: inventory.Degraded, Since: over.Add(time.Second)}, {Reason: "b", Health: inventory.Unhealthy, Since: over}}
		var all []*inventory.Device
		for i := range 256 {
			for _, port := range []string{"", "-p1"} {
				all = append(all, device(fmt.Sprintf("%02x:00.0%s", i, port), func(d *inventory.Device) {
					if i < 128 {
						d.Health, d.Reasons = inventory.Unhealthy, []string{inventory.ReasonFlapping}
						d.Memory = &inventory.Memory{Quarantined: true, Turns: turns, Holds: holds}
					}
				}))
			}
		}
		r.start(all...)
		r.start()
		remembered := r.ledger.Remembered()
		compare.Equal(r, "devices in quarantine", 256, len(remembered))
		want := &inventory.Memory{
			Quarantined: true, Turns: []time.Time{turns[5].UTC()},
			Holds: []inventory.Hold{{Reason: "a", Health: inventory.Unhealthy, Since: over.Add(time.Second)}},
		}
		for id, d := range remembered {
			compare.Values(r, id, want, d.Memory)
		}
	})
}

// Setting the clock back by a year doesn't cause a crash, and no card is missing since a time in the future.
func TestClockSetBack(t *testing.T) {
	onNode(t, func(r *rig) {
		future := time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
		text := `{"version":1,"cards":[{"card":"3b:00.0","pciId":"` + model + `","firstSeen":"` + future + `","lastSeen":"` + future + `","expected":true,"healthChanges":1,"removals":1,` +
			`"missing":"` + future + `","recent":[{"time":"` + future + `","device":"3b:00.0","from":"healthy","to":"unhealthy"}]}]}`
		must.Succeed(r, os.WriteFile(r.dir+"/cards.json", []byte(text), 0o600))
		r.startAndSettle()
		if all, _ := r.ledger.Missing(); len(all) != 1 || all[0].Since.After(time.Now()) {
			r.Errorf("missing %v, want one card since the start", all)
		}
		r.list(healthy("3b:00.0"))
		r.list(broken("3b:00.0"))
		r.expect("back", "", "device.missing 3b:00.0; device.returned 3b:00.0")
		r.start()
	})
}

// Setting the clock after a card has been quarantined changes neither how long ago that was nor when a hold ends.
func TestClockSetMeanwhile(t *testing.T) {
	for _, by := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		now := time.Now()
		at := now.Add(-time.Minute)
		*(*uint64)(unsafe.Pointer(&at)) -= uint64(by/time.Second) << 30 // changes its wall clock time but not its monotonic time
		if was := now.Round(0).Sub(at.Round(0)); now.Sub(at) != time.Minute || was != time.Minute+by {
			t.Fatalf("%s and %s ago, want a minute and %s", now.Sub(at), was, time.Minute+by)
		}
		m := &inventory.Memory{Turns: []time.Time{at}, Quarantined: true, Holds: []inventory.Hold{
			{Reason: "aer-fatal", Health: inventory.Unhealthy}, {Reason: "port-ap6", Health: inventory.Unhealthy, Since: at},
			{Reason: "resetting", Health: inventory.Unhealthy, Passing: at},
		}}
		ago := now.Add(-time.Minute).UTC().Truncate(time.Millisecond)
		want := &inventory.Memory{Turns: []time.Time{ago}, Quarantined: true, Holds: []inventory.Hold{
			{Reason: "aer-fatal", Health: inventory.Unhealthy}, {Reason: "port-ap6", Health: inventory.Unhealthy, Since: ago},
			{Reason: "resetting", Health: inventory.Unhealthy, Passing: ago},
		}}
		compare.Values(t, fmt.Sprintf("set by %s", by), want, ledger.Written(m, now))
	}
}

// During an upgrade, two daemons follow the same cards, and one of them writes.
func TestTwoDaemons(t *testing.T) {
	onNode(t, func(former *rig) {
		former.start(healthy("3b:00.0"))
		next := &rig{T: former.T, dir: former.dir, exempt: former.exempt}
		next.start(healthy("3b:00.0"))
		for _, r := range []*rig{former, next} {
			r.list(broken("3b:00.0"))
		}
		wait(time.Minute)
		next.expectFile(`"healthChanges":1`)
		next.list(healthy("3b:00.0"))
		former.stop()
		wait(10 * time.Second)
		next.expectFile(`"healthChanges":2`)
		next.expect("after the former one", "", "")
		next.stop()
	})
}

// During an upgrade, the old daemon sees a card being removed before the new one has read the cards. The card counts as
// missing for no longer than the upgrade takes.
func TestPulledDuringUpgrade(t *testing.T) {
	onNode(t, func(former *rig) {
		former.start(healthy("3b:00.0"), healthy("5e:00.0"))
		wait(time.Second)
		next := &rig{T: former.T, dir: former.dir, exempt: former.exempt}
		next.open(inventory.Snapshot{})
		former.list(healthy("3b:00.0"))
		next.list(healthy("3b:00.0"))
		wait(settled)
		former.stop()
		wait(10 * time.Second)
		next.expect("next", "", "device.missing 5e:00.0")
		next.startAndSettle(healthy("3b:00.0"))
		next.expect("another start", "", "")
		next.stop()
	})
}

// A daemon that can't read the machine ID keeps the recorded one.
func TestMachineUnknown(t *testing.T) {
	onNode(t, func(r *rig) {
		for _, r.machine = range []string{"this", ""} {
			r.start(healthy("3b:00.0"), healthy("5e:00.0"))
			r.stop()
		}
		r.machine = "other"
		r.startAndSettle(healthy("3b:00.0"))
		r.expect("another machine", "", "ledger.begun")
	})
}

// During an upgrade, only the daemon that writes the file can forget a card. The next daemon doesn't write the card
// back.
func TestForgetDuringUpgrade(t *testing.T) {
	onNode(t, func(former *rig) {
		former.start(healthy("3b:00.0"), healthy("5e:00.0"))
		former.startAndSettle(healthy("3b:00.0"))
		next := &rig{T: former.T, dir: former.dir, exempt: former.exempt}
		next.startAndSettle(healthy("3b:00.0"))
		compare.Error(former, "Forget", "cards.json: another daemon writes it", compare.ErrorOf(next.ledger.Forget(former.Context(), "5e:00.0", "alice")))
		next.expect("next", "5e:00.0", "device.missing 5e:00.0")
		must.Value(former.ledger.Forget(former.Context(), "5e:00.0", "alice"))(former)
		former.stop()
		next.list(broken("3b:00.0"))
		wait(10 * time.Second)
		next.expect("after the former one", "", "")
		next.expectFile("!5e:00.0")
		next.stop()
	})
}
