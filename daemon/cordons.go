package daemon

import (
	"context"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/inventory"
)

// cordons serves the cordon and uncordon commands.
type cordons struct {
	book      *cordon.Book
	inventory *inventory.Inventory
}

func (c cordons) add(ctx context.Context, devices []string, by, why string, during time.Duration) ([]cordon.Cordon, error) {
	made, err := c.book.Add(ctx, devices, by, why, during)
	c.published(ctx)
	return made, err
}

func (c cordons) remove(ctx context.Context, devices []string, by string) ([]cordon.Cordon, error) {
	ended, err := c.book.Remove(ctx, devices, by)
	c.published(ctx)
	return ended, err
}

// published waits up to a second for a snapshot that reflects the current cordons, because the command will then print
// that snapshot's devices.
func (c cordons) published(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		snapshot, stale := c.inventory.Latest()
		all := c.book.List()
		if !slices.ContainsFunc(snapshot.Devices, func(d *inventory.Device) bool {
			gone := slices.ContainsFunc(d.Reasons, func(r string) bool { return inventory.ReasonOf(r).Tombstone })
			return !gone && slices.Contains(d.Reasons, inventory.ReasonCordoned) != (cordon.Find(all, d.ID, d.Members...) != nil)
		}) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-stale:
		}
	}
}
