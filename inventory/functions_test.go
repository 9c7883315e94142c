package inventory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// These tests cover functions whose events concern cards at other addresses, and cards without a unit.

// function returns a unit that is identified by its own address.
func function(id string, bad ...inventory.Condition) inventory.Unit {
	u := good(0, -1, bad...)
	u.ID, u.PCIAddress, u.Name, u.PortIDKnown = id, "0000:"+id, id, false
	return u
}

// relate sets what is read from a card, including a related address.
func (b *fakeFamily) relate(card, related string, units ...inventory.Unit) {
	b.locked(func() { b.cards[card] = inventory.Reading{Related: []string{related}, Units: units} })
}

// readsOf returns how often a card has been read so far.
func (b *fakeFamily) readsOf(card string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads[card]
}

// A hint for a function that isn't listed by any family, such as a new one in a group's slot, makes the inventory read
// the cards that refer to it.
func TestHintForAnUnknownSibling(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const sibling = "0000:3b:00.1"
		f := newFakeFamily("vfio")
		f.relate(cardA, sibling, function("3b:00.0"))
		f.set(cardB, function("6b:00.0"))
		r := start(t, testConfig, f)
		f.relate(cardA, sibling, function("3b:00.0", ap6))
		before := f.readsOf(cardB)
		r.hint(sibling)
		r.want("sibling", map[string]string{"3b:00.0": "unhealthy[port-ap6]", "6b:00.0": "healthy[]"})
		compare.Equal(t, "readings of another card", 0, f.readsOf(cardB)-before)

		// The card no longer refers to the sibling.
		r.set(cardA, function("3b:00.0"))
		before = f.readsOf(cardA)
		r.hint(sibling)
		compare.Equal(t, "readings after a hint for a function that is no longer named", 0, f.readsOf(cardA)-before)
	})
}

// A card without units, such as a function whose group has a lower function, is kept. Its related addresses count, and
// it is read at the health interval. Once the lower function is removed, the card immediately gets the unit.
func TestCardWithoutUnits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const low, high = cardA, "0000:3b:00.1"
		f := newFakeFamily("vfio")
		f.relate(low, high, function("3b:00.0"))
		f.relate(high, low)
		r := start(t, testConfig, f)
		r.want("start", map[string]string{"3b:00.0": "healthy[]"})
		before := f.readsOf(high)
		r.after(testConfig.HealthInterval)
		compare.Equal(t, "readings in a health interval", 1, f.readsOf(high)-before)
		r.after(time.Minute)

		f.pull(low)
		f.relate(high, low, function("3b:00.1"))
		r.hint(low)
		r.want("the lower function left", map[string]string{"3b:00.1": "healthy[]"})
	})
}

// A card is plugged in one function at a time, as AWS cards are. A reading that started before the last function was
// there didn't find it. The hint for that function causes another reading.
func TestFunctionDuringReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const management = "0000:3b:00.1"
		f := newFakeFamily("aws")
		r := start(t, testConfig, f)
		release := f.delay(cardA)
		r.hint(cardA)
		f.relate(cardA, management, function("3b:00.0"))
		f.relate(management, cardA)
		r.hint(management)
		release()
		synctest.Wait()
		r.want("the last function was plugged", map[string]string{"3b:00.0": "healthy[]"})
		compare.Equal(t, "readings of the card", 2, f.readsOf(cardA))
	})
}

// An attribute that is missing from a reading keeps its value for as long as the unit's directory exists, because the
// kernel removes a virtual function's links before the function itself. The value "" means that there is none.
func TestAttributesAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("vfio")
		r := start(t, testConfig, f)
		for _, step := range []struct {
			name        string
			incarnation uint64
			read, want  map[string]string
		}{
			{"plugged", 1, map[string]string{"iommuGroup": "6", "physicalFunction": "0000:3b:00.0"}, map[string]string{"iommuGroup": "6", "physicalFunction": "0000:3b:00.0"}},
			{"one is missing", 1, map[string]string{"iommuGroup": "7"}, map[string]string{"iommuGroup": "7", "physicalFunction": "0000:3b:00.0"}},
			{"all are missing", 1, nil, map[string]string{"iommuGroup": "7", "physicalFunction": "0000:3b:00.0"}},
			{"one is empty", 1, map[string]string{"physicalFunction": ""}, map[string]string{"iommuGroup": "7", "physicalFunction": ""}},
			{"another directory", 2, map[string]string{"iommuGroup": "8"}, map[string]string{"iommuGroup": "8"}},
		} {
			u := function("3b:00.0")
			u.Incarnation, u.Attributes = step.incarnation, step.read
			r.set(cardA, u)
			s, _ := r.Latest()
			compare.Values(t, step.name+": attributes", step.want, s.Device("3b:00.0").Attributes)
		}
	})
}

// A card's next shell may have no interface, or several. The card then has no interface, rather than keeping the
// previous shell's.
func TestInterfaceOfAnotherShell(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("xrt")
		r := start(t, testConfig, f)
		for _, step := range []struct{ name, vbnv, read, want string }{
			{"plugged", "base", "1", "1"},
			{"is not there yet", "base", "", "1"},
			{"the shell is not known", "", "", "1"},
			{"another shell", "shell", "", ""},
			{"its interface", "shell", "2", "2"},
			{"another shell at once", "base", "1", "1"},
		} {
			u := function("3b:00.0")
			u.NamedByShell, u.InterfaceID, u.InterfaceIDKnown = true, step.read, true
			u.Attributes = map[string]string{inventory.AttributeVBNV: step.vbnv}
			r.set(cardA, u)
			s, _ := r.Latest()
			compare.Equal(t, step.name+": interface", step.want, s.Device("3b:00.0").InterfaceID)
		}
	})
}

// If a function gets another driver and is therefore read by another family, it is a different device. It doesn't keep
// any of the previous device's attributes, and isn't offered while the previous device has holders.
func TestFunctionOfAnotherFamily(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, before, after := newFakeKubelet(), newFakeFamily("vfio"), newFakeFamily("xrt")
		u := function("3b:00.0")
		u.Attributes = map[string]string{"iommuGroup": "6"}
		before.set(cardA, u)
		r := start(t, withKubelet(d), before, after)
		d.hold("3b:00.0", "default/job/main")
		before.pull(cardA)
		u.Attributes = map[string]string{"vbnv": "u50"}
		after.set(cardA, u)
		r.hint(cardA)
		r.want("another driver", map[string]string{"3b:00.0": "unhealthy[replaced-in-use recovering=removed]"})
		s, _ := r.Latest()
		compare.Values(t, "attributes", map[string]string{"vbnv": "u50"}, s.Device("3b:00.0").Attributes)
	})
}
