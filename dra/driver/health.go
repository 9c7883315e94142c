package driver

import (
	"context"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	draslices "b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	// healthInterval is the maximum time between health reports. The kubelet considers a device's health unknown 30 s
	// after the last report.
	healthInterval = 10 * time.Second
	// aliveWithin is how long the inventory may take to report that it is alive.
	aliveWithin = 2 * time.Second
)

// WatchHealthStatus implements [kubeletplugin.DRAPlugin]. It reports all devices for each new snapshot, and at least
// once per healthInterval. While the inventory hangs, it doesn't report anything, because the last snapshot may be
// outdated.
func (d *Driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	end, err := d.begin()
	if err != nil {
		return err
	}
	defer end()
	d.cfg.Metrics.StreamOpened(draname.Driver)
	d.streams.Add(1)
	defer d.streams.Add(-1)
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for {
		alive := d.alive(ctx)
		snapshot, stale := d.cfg.Inventory.Latest()
		if alive && snapshot.Version > 0 {
			select {
			case <-ctx.Done():
				return nil
			case reports <- kubeletplugin.DeviceHealthReport{Devices: draslices.Health(snapshot.Devices, d.cfg.Node)}:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
		case <-tick.C:
		}
	}
}

func (d *Driver) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveWithin)
	defer cancel()
	return d.cfg.Inventory.Alive(ctx) == nil
}
