package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// TestReturn plugs cards into a tombstone's slot.
func TestReturn(t *testing.T) {
	changed := func(change func(*inventory.Unit)) inventory.Unit {
		p := good(7, 0)
		p.Incarnation, p.PCIID, p.InterfaceID = 777, "8086:09c4:8086:0000", afu2
		change(&p)
		return p
	}
	first := changed(func(p *inventory.Unit) { p.Incarnation = 1 })
	first.InterfaceID = afu2
	for _, test := range []struct {
		name   string
		anyAFU bool
		back   inventory.Unit
		at     string // its state when it has returned
		held   string // after the hold, while it is still held
		free   string // after the hold, when its old holder is gone
	}{
		{"the same", false, changed(func(*inventory.Unit) {}), "unhealthy[recovering=removed-in-use]", "healthy[]", "healthy[]"},
		{"another AFU", false, changed(func(p *inventory.Unit) { p.AFUID = afu2 }),
			"unhealthy[replaced-in-use recovering=removed-in-use]", "unhealthy[replaced-in-use]", "healthy[]"},
		{"another AFU, mode with any AFU", true, changed(func(p *inventory.Unit) { p.AFUID = afu2 }),
			"unhealthy[recovering=removed-in-use]", "healthy[]", "healthy[]"},
		{"another interface", true, changed(func(p *inventory.Unit) { p.InterfaceID = afu1 }),
			"unhealthy[replaced-in-use recovering=removed-in-use]", "unhealthy[replaced-in-use]", "healthy[]"},
		{"another model", false, changed(func(p *inventory.Unit) { p.PCIID = "8086:0b30:8086:0000" }),
			"unhealthy[replaced-in-use recovering=removed-in-use]", "unhealthy[replaced-in-use]", "healthy[]"},
		{"another model, which the image determines", false, changed(func(p *inventory.Unit) { p.PCIID, p.AnyPCIID = "1d0f:f010:fedc:1d51", true }),
			"unhealthy[recovering=removed-in-use]", "healthy[]", "healthy[]"},
		{"model not known", false, changed(func(p *inventory.Unit) { p.PCIID = "" }), "unhealthy[recovering=removed-in-use]", "healthy[]", "healthy[]"},
		{"AFU not known yet", false, changed(func(p *inventory.Unit) { p.AFUID, p.AFUIDKnown = "", false }),
			"unhealthy[removed-in-use]", "unhealthy[removed-in-use]", "healthy[]"},
		{"interface not there yet", false, changed(func(p *inventory.Unit) { p.InterfaceID = "" }),
			"unhealthy[removed-in-use]", "unhealthy[removed-in-use]", "healthy[]"},
		{"interface not known", true, changed(func(p *inventory.Unit) { p.InterfaceID, p.InterfaceIDKnown = "", false }),
			"unhealthy[removed-in-use]", "unhealthy[removed-in-use]", "healthy[]"},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			f, d := oneCard(first), newFakeKubelet()
			d.hold("3b:00.0", pod)
			cfg := withKubelet(d)
			cfg.Policy.AnyAFU = test.anyAFU
			r := start(t, cfg, f)
			r.pull(cardA)
			r.after(time.Minute)
			r.want("pulled", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
			r.set(cardA, test.back)
			r.want("back", map[string]string{"3b:00.0": test.at})
			r.after(10 * time.Second)
			r.want("held", map[string]string{"3b:00.0": test.held})
			d.free("3b:00.0")
			r.after(10 * time.Second)
			r.after(10 * time.Second)
			r.want("free", map[string]string{"3b:00.0": test.free})
		})
	}
}

// A device's holders can program it. With a different AFU, it remains the same device, even after a restart. With a
// different interface, it's another device.
func TestReturnProgrammed(t *testing.T) {
	for _, restart := range []bool{false, true} {
		runInBubble(t, fmt.Sprint("restart=", restart), func(t *testing.T) {
			f, d := newFakeFamily("dfl"), newFakeKubelet()
			first := good(0, 0)
			first.InterfaceID = afu2
			d.held["3b:00.0"] = []inventory.Holding{{As: "b.com/fpga", AnyAFU: true, Given: &inventory.Device{Family: "dfl", Facts: inventory.Facts{AFUID: first.AFUID, InterfaceID: afu2}}}}
			cfg := withKubelet(d)
			cfg.Policy.Name = func(*inventory.Device) (string, error) { return "b.com/fpga", nil }
			if restart {
				cfg.Record = d.record()
			} else {
				f.set(cardA, first)
			}
			r := start(t, cfg, f)
			r.pull(cardA)
			r.after(time.Minute)
			r.want("pulled", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
			back := first
			back.AFUID = afu2
			r.set(cardA, back)
			r.after(time.Minute)
			r.want("another AFU", map[string]string{"3b:00.0": "healthy[]"})
			r.pull(cardA)
			back.InterfaceID = afu1
			r.set(cardA, back)
			r.after(time.Minute)
			r.want("another interface", map[string]string{"3b:00.0": "unhealthy[replaced-in-use]"})
		})
	}
}

// The kernel adds and removes a card in steps. It removes the region first, then the FME, then the ports. Parts that
// are missing in between don't change the identity.
func TestReturnAfterPartialReading(t *testing.T) {
	for _, test := range []struct {
		name  string
		going func(*inventory.Unit)
	}{
		{"without FME", func(p *inventory.Unit) { p.InterfaceID = "" }},
		{"without AFU", func(p *inventory.Unit) { p.AFUID = "" }},
		{"unbound", func(p *inventory.Unit) {
			p.AFUID, p.AFUIDKnown, p.Conditions = "", false, []inventory.Condition{unbound}
		}},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			whole := good(0, 0)
			whole.InterfaceID = afu2
			f, d := oneCard(whole), newFakeKubelet()
			d.hold("3b:00.0", pod)
			r := start(t, withKubelet(d), f)
			going := whole
			test.going(&going)
			r.set(cardA, going)
			r.pull(cardA)
			whole.Incarnation++
			r.set(cardA, whole)
			r.after(10 * time.Second)
			r.want("back", map[string]string{"3b:00.0": "healthy[]"})
		})
	}
}

// If a replacement's identity can no longer be read, the card counts neither as the replacement nor as the first card.
func TestReplacementBecomesUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := oneCard(), newFakeKubelet()
		d.hold("3b:00.0", pod)
		r := start(t, withKubelet(d), f)
		r.pull(cardA)
		p := good(0, 0)
		p.AFUID = afu2
		r.set(cardA, p)
		p.Incarnation++ // swapped between two readings
		p.AFUID, p.AFUIDKnown = "", false
		r.set(cardA, p)
		r.after(10 * time.Second)
		r.want("identity unknown", map[string]string{"3b:00.0": "unhealthy[removed-in-use]"})
	})
}

// A holding says which card was allocated. If a different card is in its slot at startup, that card isn't offered until
// the holding ends. The AFU may differ.
func TestSwappedBeforeStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, d := newFakeFamily("dfl"), newFakeKubelet()
		card := func(iface string) inventory.Unit {
			u := good(0, 0)
			u.InterfaceID = iface
			return u
		}
		const first, second = "00000000000000000000000000000001", "00000000000000000000000000000002"
		f.set(cardA, card(second))
		d.held["3b:00.0"] = []inventory.Holding{{As: "b.com/fpga", Given: &inventory.Device{Family: "dfl", Facts: inventory.Facts{InterfaceID: first, AFUID: "x"}}}}
		cfg := withKubelet(d)
		cfg.Policy.Name = func(*inventory.Device) (string, error) { return "b.com/fpga", nil }
		cfg.Policy.AnyAFU, cfg.Record = true, d.record()
		r := start(t, cfg, f)
		replaced := map[string]string{"3b:00.0": "unhealthy[replaced-in-use]"}
		swap := func(iface string) {
			r.pull(cardA)
			r.after(time.Second)
			r.set(cardA, card(iface))
			r.after(time.Minute)
		}
		r.want("start", replaced)
		r.after(time.Hour)
		r.want("an hour later", replaced)
		swap(first)
		r.want("the first card again", map[string]string{"3b:00.0": "healthy[]"})
		swap(second)
		r.want("swapped again", replaced)
		d.free("3b:00.0")
		r.after(10 * time.Minute)
		r.want("free", map[string]string{"3b:00.0": "healthy[]"})
	})
}
