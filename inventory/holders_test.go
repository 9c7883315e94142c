package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// While holders are unknown, a device counts as held for the grace period.
func TestGrace(t *testing.T) {
	for _, test := range []struct {
		name  string
		grace time.Duration
		stall bool
		last  time.Duration // how long after its removal it is still listed
	}{
		{"refused", 5 * time.Minute, false, 5*time.Minute - time.Millisecond},
		{"stalled", 5 * time.Minute, true, 5*time.Minute - time.Millisecond},
		{"shorter than the time between questions", 3 * time.Second, false, 3*time.Second - time.Millisecond},
		{"none", 0, false, -1},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			f, d := newFakeFamily("dfl"), newFakeKubelet()
			if d.stall = test.stall; !test.stall {
				d.fail("no such socket")
			}
			f.set(cardA, good(0, 0))
			cfg := withKubelet(d)
			cfg.TombstoneGrace = test.grace
			r := start(t, cfg, f)
			r.after(30 * time.Second)
			r.pull(cardA)
			if test.last >= 0 {
				r.after(test.last)
				r.want("within the grace time", map[string]string{"3b:00.0": "unhealthy[removed]"})
				r.after(time.Millisecond)
			}
			r.want("after it", map[string]string{})
			compare.Equal(t, "lines that holders are not known", 1, r.logs.FilterMessage("cannot tell which containers use devices, those that may be in use are withheld").Len())
		})
	}
}

// Without a grace period, a device whose name changes while holders are unknown gets the new name immediately, without
// waiting for the current question to be answered.
func TestRenamedWithoutGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		d.stall = true
		f.set(cardA, good(0, 0))
		cfg := withKubelet(d)
		cfg.TombstoneGrace, cfg.RecoveryHold, cfg.Policy = 0, 0, modePolicy("one")
		r := start(t, cfg, f)
		r.after(30 * time.Second)
		r.Use(modePolicy("two"))
		synctest.Wait()
		s, _ := r.Latest()
		if d := s.Devices[0]; d.OfferedAs != "two" || d.Health != inventory.Healthy {
			t.Errorf("found the device as %s, %s%s, want it healthy as two", d.OfferedAs, d.Health, d.Reasons)
		}
	})
}

// The inventory keeps asking after holders have been unknown for longer than the grace period, because a device whose
// reservation has ended may still be held.
func TestAnswerAfterTheGrace(t *testing.T) {
	withKubeletAndCard(t, func(t *testing.T, r *rig, f *fakeFamily, d *fakeKubelet) {
		d.fail("no such socket")
		d.hold("3b:00.0", pod)
		r.pull(cardA)
		r.after(time.Hour)
		r.want("given up", map[string]string{})
		d.fail("")
		r.after(10 * time.Second)
		r.want("held after all", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
		compare.Equal(t, "lines that holders are known again", 1, r.logs.FilterMessage("holders known again").Len())
	})
}

// A device that is held at startup but missing is listed as removed.
func TestHeldBeforeStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		f.set(cardB, good(0, 0))
		d.hold("3b:00.0-p1", pod)
		d.hold("0001:5e:00.0", pod)
		d.hold("not an id of ours\x00", pod)
		d.hold("", pod)
		d.hold(string(make([]byte, 10_000)), pod)
		d.takes = 100 * time.Millisecond
		r := start(t, withKubelet(d), f)
		compare.Equal(t, "version before the answer about holders", 0, r.version())
		r.after(100 * time.Millisecond)
		compare.Equal(t, "version", 1, r.version())
		want := map[string]string{
			"0001:5e:00.0": "healthy[]", "3b:00.0-p1": "unhealthy[removed-in-use]", "not an id of ours\x00": "unhealthy[removed-in-use]",
		}
		r.want("at first", want)
		s, _ := r.Latest()
		got := *s.Device("3b:00.0-p1")
		compare.Values(t, "tombstone", inventory.Device{
			ID: "3b:00.0-p1", OfferedAs: "b.com/fpga", Health: inventory.Unhealthy, Reasons: []string{"removed-in-use"},
			PCIAddress: "0000:3b:00.0", Facts: inventory.Facts{NUMANode: -1, PortID: 1},
		}, got)

		r.set(cardA, good(4, 0), good(5, 1))
		want["3b:00.0"], want["3b:00.0-p1"] = "healthy[]", "unhealthy[recovering=removed-in-use]"
		r.want("it is back", want)
		r.after(10 * time.Second)
		want["3b:00.0-p1"] = "healthy[]"
		r.want("and has held", want)
		d.set(func() { clear(d.held) })
		r.after(11 * time.Second)
		delete(want, "not an id of ours\x00")
		r.want("nothing is held", want)
	})
}

// The number of tombstones is limited, no matter how often the answer changes.
func TestManyMissingDevices(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		r := start(t, withKubelet(d), f)
		for _, held := range []int{1000, 6000} {
			for i := range held {
				d.hold(fmt.Sprint("id", i), pod)
			}
			r.after(time.Minute)
			s, _ := r.Latest()
			compare.Equal(t, fmt.Sprintf("tombstones of %d devices", held), min(held, 1024), len(s.Devices))
		}
		d.set(func() { clear(d.held) })
		r.after(10 * time.Second)
		r.want("nothing is held", map[string]string{})
	})
}

// If a card hangs from the start, its ports are unknown, so none of them are listed as removed.
func TestHeldOnACardThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := oneCard(good(0, 1)), newFakeKubelet()
		release := f.hang(cardA)
		d.hold("3b:00.0-p1", pod)
		r := start(t, withKubelet(d), f)
		r.after(20 * time.Second)
		r.want("hangs", map[string]string{"3b:00.0": "unhealthy[read-timeout]"})
		release()
		r.after(time.Minute)
		r.want("answers", map[string]string{"3b:00.0-p1": "healthy[]"})
	})
}

// If several containers hold a device, that is a bug in the kubelet or in this daemon. The device is offered again when
// only one of them is left, without a recovery hold. It may be missing in between.
func TestHeldTwice(t *testing.T) {
	withKubeletAndCard(t, func(t *testing.T, r *rig, f *fakeFamily, d *fakeKubelet) {
		for range 2 {
			d.hold("3b:00.0", pod, "default/other/main")
			r.after(time.Minute)
			r.want("held twice", map[string]string{"3b:00.0": "unhealthy[held-twice]"})
			d.hold("3b:00.0", pod)
			r.after(time.Minute)
			r.want("held once", map[string]string{"3b:00.0": "healthy[]"})
		}
		d.hold("3b:00.0", pod, "default/other/main")
		r.pull(cardA)
		r.want("pulled", map[string]string{"3b:00.0": "unhealthy[removed-in-use held-twice]"})
		d.fail("no such socket")
		r.after(time.Hour)
		d.fail("")
		d.free("3b:00.0")
		r.after(time.Minute)
		r.want("free", map[string]string{})
		var got []string
		for _, l := range r.logs.All() {
			if name := fmt.Sprint(l.ContextMap()["event"]); strings.HasPrefix(name, "device.held-") {
				got = append(got, fmt.Sprint(l.Level, " ", name, " ", l.ContextMap()["device"]))
			}
		}
		want := slices.Repeat([]string{"error device.held-twice 3b:00.0", "info device.held-once 3b:00.0"}, 3)
		compare.Values(t, "lines", want, got)
	})
}

// Another plugin has allocated a device's node, so the device is withheld for as long as the container lives. The other
// plugin's device isn't listed.
func TestForeignHolding(t *testing.T) {
	foreign := func(nodes ...string) []inventory.Holding {
		return []inventory.Holding{{As: "other.org/fpga", Foreign: true, Nodes: nodes, Holders: []string{"default/other/main"}}}
	}
	bubble(t, func(t *testing.T) {
		f, d := twoCards(), newFakeKubelet()
		d.set(func() { d.held["other.org/fpga/5e:00.0"] = foreign("dfl-port.0") })
		cfg := withKubelet(d)
		cfg.Policy.Name = func(*inventory.Device) (string, error) { return "b.com/fpga", nil }
		r := start(t, cfg, f)
		want := map[string]string{"3b:00.0": "unhealthy[node-in-use]", "0001:5e:00.0": "healthy[]"}
		r.want("start", want)
		d.fail("no such socket")
		r.after(time.Hour)
		r.want("no answer", want)
		d.fail("")
		d.set(func() { clear(d.held); d.held["other.org/fpga/5e:00.0"] = foreign("dfl-port.1") })
		r.after(time.Minute)
		want = map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "unhealthy[node-in-use]"}
		r.want("another node", want)
		d.set(func() {
			clear(d.held)
			d.held["other.org/fpga/0001:5e:00.0"] = foreign(inventory.FunctionNode("0001:5e:00.0"))
		})
		r.after(time.Minute)
		r.want("another function", want)
		d.set(func() {
			clear(d.held)
			d.held["other.org/nic/0000:18:02.1"] = foreign(inventory.FunctionNode("0000:18:02.1"))
		})
		r.after(time.Minute)
		r.want("a function that isn't ours", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"})
		d.set(func() { clear(d.held); d.held["other.org/fpga/5e:00.0"] = foreign("dfl-port.1") })
		r.after(time.Minute)
		r.want("a node again", want)
		r.pull(cardB)
		delete(want, "0001:5e:00.0")
		r.after(time.Second)
		r.want("pulled", want)
		d.set(func() { clear(d.held) })
		f.set(cardB, good(1, 0))
		r.after(2 * time.Minute)
		want["0001:5e:00.0"] = "healthy[]"
		r.want("free", want)
		compare.Equal(t, "lines about the holder", 0, r.logs.FilterField(logevent.DeviceTombstone).Len()+r.logs.FilterField(logevent.DeviceHeld).Len())
	})
}

// A function in place of device nodes doesn't count as nodes that the device no longer has.
func TestFunctionUnderOurID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := twoCards(), newFakeKubelet()
		d.set(func() {
			d.held["0001:5e:00.0"] = []inventory.Holding{{As: "other.org/nic", OtherAPI: true, Nodes: []string{inventory.FunctionNode("0001:5e:00.0")}}}
		})
		cfg := withKubelet(d)
		cfg.Policy.Name = func(*inventory.Device) (string, error) { return "b.com/fpga", nil }
		r := start(t, cfg, f)
		r.want("start", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "unhealthy[held-other-api]"})
	})
}

// A device that, according to the kubelet's checkpoint, is held under its previous name isn't offered under the new
// one, even if the first answer takes longer than the first list can wait.
func TestFormerNameUntilTheFirstAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		held   bool // also according to the answer
		former string
	}{
		"held": {true, "former unhealthy [replaced-in-use]"}, "ended": {false, "single healthy []"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			f, d := twoCards(), newFakeKubelet()
			d.give("former", "3b:00.0", []string{"dfl-port.0"}, pod)
			cfg := withKubelet(d)
			cfg.Record, cfg.Policy = d.record(), modePolicy("single")
			if d.takes = time.Second; !tt.held {
				d.free("3b:00.0")
			}
			r := start(t, cfg, f)
			check := func(when, want string) {
				t.Helper()
				s, _ := r.Latest()
				got := map[string]string{}
				for _, d := range s.Devices {
					got[d.ID] = fmt.Sprint(d.OfferedAs, " ", d.Health, d.Reasons)
				}
				compare.Values(t, when+": devices", map[string]string{"3b:00.0": want, "0001:5e:00.0": "single healthy []"}, got)
			}
			r.after(500 * time.Millisecond)
			check("no answer yet", "former unhealthy [moving]")
			d.set(func() { d.takes = 0 })
			r.after(time.Second)
			check("answered", tt.former)
		})
	}
}

// A device in the record stays withheld, and isn't logged as released, until a question has been answered.
func TestRecordWithoutAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := oneCard(), newFakeKubelet()
		d.give("former", "3b:00.0", []string{"dfl-port.0"}, pod)
		cfg := withKubelet(d)
		cfg.Record, cfg.Policy = d.record(), modePolicy("single")
		cfg.Holders = func(context.Context) inventory.Holdings { return inventory.Holdings{Err: errors.New("busy")} }
		r := start(t, cfg, f)
		r.after(3 * tombstoneGrace)
		s, _ := r.Latest()
		if d := s.Device("3b:00.0"); d == nil || d.OfferedAs != "former" || d.Health != inventory.Unhealthy {
			t.Errorf("device %+v, want it unhealthy under its former name", d)
		}
		compare.Equal(t, "lines that the device was released", 0, r.logs.FilterField(logevent.DeviceReleased).Len())
	})
}

// If nothing but a device's ID suggests that this plugin allocated it, it is withheld under the kubelet's name for it.
// But a resource that may belong to another plugin isn't registered unless necessary.
func TestPerhapsHeld(t *testing.T) {
	byRule := good(0, 0)
	byRule.OnlyByRule = true
	for name, tt := range map[string]struct {
		card  []inventory.Unit // nil: not on the node
		named string
		want  string
	}{
		"a card":                         {[]inventory.Unit{good(0, 0)}, "single", "former unhealthy [replaced-in-use]"},
		"no card":                        {nil, "single", ""},
		"a card that no rule names":      {[]inventory.Unit{byRule}, "", " healthy []"},
		"a card that a rule names":       {[]inventory.Unit{byRule}, "single", "former unhealthy [replaced-in-use]"},
		"a card without devices, as yet": {[]inventory.Unit{}, "single", ""},
	} {
		runInBubble(t, name, func(t *testing.T) {
			f, d := newFakeFamily("dfl"), newFakeKubelet()
			if tt.card != nil {
				f.set(cardA, tt.card...)
			}
			d.held["3b:00.0"] = []inventory.Holding{{As: "former", Holders: []string{pod}, Perhaps: true}}
			cfg := withKubelet(d)
			cfg.Policy.Name = func(*inventory.Device) (string, error) { return tt.named, nil }
			r := start(t, cfg, f)
			r.after(time.Second)
			s, _ := r.Latest()
			got := ""
			for _, d := range s.Devices {
				got += fmt.Sprint(d.OfferedAs, " ", d.Health, d.Reasons)
			}
			compare.Equal(t, "devices", tt.want, got)
		})
	}
}
