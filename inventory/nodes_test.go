package inventory_test

import (
	"slices"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// A card that comes and goes under its holder for days loses the same few nodes again and
// again: each is remembered once.
func TestNodesAreOwedOnce(t *testing.T) {
	inv := inventory.New(withDesk(newDesk()), sysfs.Host{}, zap.NewNop())
	lost := slices.Repeat([][]string{{"dfl-port.1", "245:1"}, {"dfl-port.0", "245:0"}}, 1000)
	want := []string{"245:0", "245:1", "dfl-port.0", "dfl-port.1"}
	if got := inv.Owed(lost...); !slices.Equal(got, want) {
		t.Errorf("%d nodes, want %v", len(got), want)
	}
}
