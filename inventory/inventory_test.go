package inventory_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestPlugAndUnplug(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		r := start(t, testConfig, f)
		first, stale := r.Latest()
		if first.Version != 1 || len(first.Devices) != 0 {
			t.Fatalf("first snapshot = version %d with %d devices, want version 1 with none", first.Version, len(first.Devices))
		}

		r.set(cardA, good(0, 0), good(1, 1))
		select {
		case <-stale:
		default:
			t.Error("the channel of the first snapshot is open, want it closed by the second one")
		}
		r.want("plugged", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]"})

		r.set(cardB, good(2, 0))
		r.want("a second card", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]", "0001:5e:00.0": "healthy[]"})

		r.pull(cardA)
		r.want("pulled", map[string]string{"0001:5e:00.0": "healthy[]"})
	})
}

func TestDeviceFacts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		p := good(4, 2)
		p.InterfaceID, p.NUMANode, p.Parent, p.ParentNodes = afu2, 1, "dfl-fme.0", []string{"dfl-fme.0"}
		f.set(cardA, p)
		r := start(t, testConfig, f)
		got, _ := r.Latest()
		want := []*inventory.Device{{
			ID: "3b:00.0-p2", Family: "dfl", PCIAddress: cardA, Facts: inventory.Facts{NUMANode: 1, PortID: 2,
				AFUID: afu1, InterfaceID: afu2, Nodes: []string{"dfl-port.4"}, Parent: "dfl-fme.0", ParentNodes: []string{"dfl-fme.0"}},
		}}
		compare.Values(t, "devices", want, got.Devices)
		if got.Device("3b:00.0-p2") == nil || got.Device("3b:00.0") != nil {
			t.Error("Snapshot.Device does not find a listed device, or finds another one")
		}
	})
}

func TestIdentity(t *testing.T) {
	dead := good(0, 0)
	dead.PortIDKnown, dead.AFUIDKnown, dead.Conditions = false, false, []inventory.Condition{{Reason: "afu-dead", Health: inventory.Unhealthy}}
	deadThird := dead
	deadThird.Name, deadThird.Incarnation = "dfl-port.2", 102
	other := good(0, 0)
	other.Incarnation++

	for _, test := range []struct {
		name          string
		before, after []inventory.Unit
		want          map[string]string
	}{
		{"a port that dies keeps its number", []inventory.Unit{good(0, 2)}, []inventory.Unit{dead},
			map[string]string{"3b:00.0-p2": "unhealthy[afu-dead]"}},
		{"another directory of the same name has its own", []inventory.Unit{good(0, 2)}, []inventory.Unit{other},
			map[string]string{"3b:00.0": "healthy[]"}},
		{"dead from the start", nil, []inventory.Unit{dead}, map[string]string{"3b:00.0": "unhealthy[afu-dead]"}},
		{"dead beside a living one", nil, []inventory.Unit{good(0, 0), deadThird},
			map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "unhealthy[afu-dead]"}},
		{"renumbered by the driver", []inventory.Unit{good(0, 0), good(1, 1)}, []inventory.Unit{good(4, 0), good(3, 1)},
			map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]"}},
		{"one number twice from the start", nil, []inventory.Unit{good(0, 1), good(1, 1)},
			map[string]string{"3b:00.0-p1": "unhealthy[port-id-conflict]", "3b:00.0": "unhealthy[port-id-conflict]"}},
		{"a new port has the number of another", []inventory.Unit{good(5, 0)}, []inventory.Unit{good(2, 0), good(5, 0)},
			map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "unhealthy[port-id-conflict]"}},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			f := newFakeFamily("dfl")
			if test.before != nil {
				f.set(cardA, test.before...)
			}
			r := start(t, testConfig, f)
			r.set(cardA, test.after...)
			r.want("after", test.want)
			r.hint(cardA)
			r.want("once more", test.want)
		})
	}
}

func TestTwoFamilies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dfl, opae := newFakeFamily("dfl"), newFakeFamily("opae")
		dfl.set(cardA, good(0, 0))
		opae.set(cardB, good(0, 0))
		r := start(t, testConfig, dfl, opae)
		r.want("one each", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"})

		dfl.pull(cardA)
		opae.set(cardA, good(0, 0))
		r.hint(cardA)
		r.want("A has the other driver", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"})
		if s, _ := r.Latest(); s.Device("3b:00.0").Family != "opae" {
			t.Errorf("family of A = %s, want opae", s.Device("3b:00.0").Family)
		}
		dfl.fail(cardA, errors.New("trouble"))
		for range 3 {
			r.hint(cardA)
		}
		r.want("trouble in one family, the other reads it", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"})
	})
}

func TestEqualReadingsPublishNothing(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		before := r.version()
		r.after(time.Hour)
		compare.Equal(t, "version after equal readings", before, r.version())
	})
}

func TestSnapshotsAreImmutable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard(good(0, 0), good(1, 1))
		r := start(t, testConfig, f)
		old, _ := r.Latest()
		copied := slices.Clone(old.Devices)
		r.set(cardA, good(1, 1, ap6))
		r.set(cardB, good(2, 0))
		compare.Values(t, "an old snapshot changed", copied, old.Devices)
	})
}
