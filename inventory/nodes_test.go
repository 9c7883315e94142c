package inventory_test

import (
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
)

// A card that is repeatedly pulled and plugged in again while it is held keeps losing the same few device nodes. Each
// of them is kept only once.
func TestLostNodesAreKeptOnce(t *testing.T) {
	lost := slices.Repeat([][]string{{"dfl-port.1", "245:1"}, {"dfl-port.0", "245:0"}}, 1000)
	want := []string{"245:0", "245:1", "dfl-port.0", "dfl-port.1"}
	if got := inventory.Lost(lost...); !slices.Equal(got, want) {
		t.Errorf("%d nodes, want %v", len(got), want)
	}
}
