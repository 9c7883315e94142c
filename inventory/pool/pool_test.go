package pool_test

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/pool"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var _ inventory.Family = pool.Pool{}

func TestPool(t *testing.T) {
	p := pool.Pool{Units: 2}
	cards, err := p.Cards(sysfs.Host{})
	if diff := cmp.Diff([]string{"pool"}, cards); diff != "" || err != nil {
		t.Fatalf("cards (-want +got), error %v:\n%s", err, diff)
	}
	got := must.Value(p.Read(sysfs.Host{}, cards[0]))(t)
	unit := func(id string) inventory.Unit {
		return inventory.Unit{ID: id, Name: id, Facts: inventory.Facts{PortID: -1, NUMANode: -1}, AFUIDKnown: true, InterfaceIDKnown: true}
	}
	want := inventory.Reading{Units: []inventory.Unit{unit("0"), unit("1")}}
	compare.Values(t, "reading", want, got)
}

func TestPoolOfNone(t *testing.T) {
	for _, units := range []int{0, -1} {
		got, err := pool.Pool{Units: units}.Read(sysfs.Host{}, "pool")
		if err != nil || len(got.Units) != 0 {
			t.Errorf("%d units: %v, %v", units, got, err)
		}
	}
}

func TestReadOfNoCard(t *testing.T) {
	compare.ErrorIs(t, "error", fs.ErrNotExist, compare.ErrorOf((pool.Pool{Units: 2}).Read(sysfs.Host{}, "0000:01:00.0")))
}
