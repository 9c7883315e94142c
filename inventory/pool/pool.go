package pool

import (
	"fmt"
	"io/fs"
	"strconv"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Pool is a family with a single card, which consists of Units units.
type Pool struct{ Units int }

// card is the name of the only card. It isn't a PCI address.
const card = "pool"

// Name returns pool.
func (Pool) Name() string { return "pool" }

// Signals returns no sources, because no event on the node affects a pool.
func (Pool) Signals() inventory.Signals { return inventory.Signals{} }

// Rows returns nil, because a pool has no health files.
func (Pool) Rows() []inventory.Row { return nil }

// Cards returns the only card.
func (Pool) Cards(sysfs.Host) ([]string, error) { return []string{card}, nil }

// Read returns the units.
func (p Pool) Read(_ sysfs.Host, name string) (inventory.Reading, error) {
	if name != card {
		return inventory.Reading{}, fmt.Errorf("card of a pool: found %q, want %q: %w", name, card, fs.ErrNotExist)
	}
	units := make([]inventory.Unit, max(p.Units, 0))
	for i := range units {
		id := strconv.Itoa(i)
		units[i] = inventory.Unit{
			ID:               id,
			Name:             id,
			Facts:            inventory.Facts{PortID: -1, NUMANode: -1},
			AFUIDKnown:       true,
			InterfaceIDKnown: true,
		}
	}
	return inventory.Reading{Units: units}, nil
}

// Outline does the same as Read, which doesn't read any files anyway.
func (p Pool) Outline(host sysfs.Host, name string) (inventory.Reading, error) {
	return p.Read(host, name)
}
