package inventory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// These tests are about functions whose events concern cards at other addresses, and about cards without a unit.

// function returns a unit with an id of its own.
func function(id string, bad ...inventory.Condition) inventory.Unit {
	u := good(0, -1, bad...)
	u.ID, u.PCIAddress, u.Name, u.PortIDKnown = id, "0000:"+id, id, false
	return u
}

// relate sets the reading of a card, with related addresses.
func (b *fakeFamily) relate(card, related string, units ...inventory.Unit) {
	b.locked(func() { b.cards[card] = inventory.Reading{Related: []string{related}, Units: units} })
}

// readsOf returns the number of readings of a card so far.
func (b *fakeFamily) readsOf(card string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads[card]
}

// A hint for a function that no family lists, such as a new one in the slot of a group, causes readings of the
// cards that name it.
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

		// The sibling is no longer named.
		r.set(cardA, function("3b:00.0"))
		before = f.readsOf(cardA)
		r.hint(sibling)
		compare.Equal(t, "readings after a hint for a function that is no longer named", 0, f.readsOf(cardA)-before)
	})
}

// A card without units, such as a function whose group has a lower function, is kept. Its related addresses count, and
// it is read at the health interval. When the lower function leaves, the card gets the unit at once.
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

// A card is plugged in function by function, like a card of AWS. A reading of the card began before the last function
// was there, and did not find it. The hint for that function causes another reading.
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

// An attribute that a reading lacks keeps its value as long as the unit's directory exists: the kernel removes
// the links of a virtual function before the function. The value "" means that there is none.
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

// Another shell of a card may have no interface, or several. The card then has none, and does not keep the interface of
// the former shell.
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

// A function that another family reads, because another driver was bound to it, is another device. It keeps no
// attribute of the former device, and is not offered while the former device has holders.
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
