package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
)

// Scan returns the state that a daemon would report right after its first start. If insist is true, a missing kubelet
// socket is reported as a holders error even if there are no devices.
func Scan(ctx context.Context, cfg config.Config, insist bool) (control.State, error) {
	policy := daemon.OfferNaming(cfg)
	watched := daemon.Watching(cfg, metrics.New("scan"))
	use := AskOnce(ctx, cfg, policy.Owns)
	if use.Err == nil {
		watched.Holders = func(context.Context) inventory.Holdings { return use }
	}
	snapshot, err := ScanOnce(ctx, cfg, watched)
	if err != nil {
		return control.State{}, err
	}
	state := control.State{IdleRules: daemon.IdleRules(policy, snapshot.Devices)}
	if unknown := use.Problem(); unknown != nil && (insist || len(snapshot.Devices) > 0 || !errors.Is(unknown, fs.ErrNotExist)) {
		state.HoldersError = unknown.Error()
	}
	state.Devices = view.List{
		Devices: snapshot.Devices, HostDev: cfg.HostDevRoot, HostSys: cfg.HostSysfsRoot, Use: use,
	}.Rows()
	return state, nil
}

// AskOnce asks the kubelet, once, for the current holders of each device.
func AskOnce(ctx context.Context, cfg config.Config, owns func(resource, id string) bool) inventory.Holdings {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return holders.New(Sources(cfg, owns)).Ask(ctx)
}

// ScanOnce returns the devices after a single scan. It blocks until each card has been read or has timed out.
func ScanOnce(ctx context.Context, cfg config.Config, watched inventory.Config) (inventory.Snapshot, error) {
	host, err := daemon.OpenHost(cfg)
	if err != nil {
		return inventory.Snapshot{}, err
	}
	watched.ResyncInterval, watched.HealthInterval = time.Hour, time.Hour // never: ScanOnce takes seconds
	inv := inventory.New(watched, host, zap.NewNop())

	// The limit only matters if listing a directory hangs, because reading a card times out earlier.
	ctx, cancel := context.WithTimeout(ctx, daemon.ReadTimeout+time.Second)
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return inv.Run(ctx) })
	snapshot, stale := inv.Latest()
	for !snapshot.Complete && ctx.Err() == nil {
		select {
		case <-stale:
			snapshot, stale = inv.Latest()
		case <-ctx.Done():
		}
	}
	if err = ctx.Err(); err != nil {
		err = fmt.Errorf("%s: not all cards could be read: %w", cfg.SysfsRoot, err)
	}
	cancel()
	return snapshot, errors.Join(err, tasks.Wait())
}
