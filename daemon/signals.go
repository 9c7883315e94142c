package daemon

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
)

// Live calls [Daemon.Serve], passes SIGHUP and SIGUSR1 to it, and logs when the daemon starts and stops. log must be
// the Log that d.Log writes to.
func (d *Daemon) Live(ctx context.Context, log *Log) error {
	hangups, toggles := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(toggles, syscall.SIGUSR1)
	defer signal.Stop(hangups)
	defer signal.Stop(toggles)
	d.Hangups, d.toggles, d.toggle = hangups, toggles, log.Toggle
	// Few objects live long, so frequent garbage collections are cheap, and they save the device plugin about 2 MiB of
	// resident memory. GOGC in the environment takes precedence.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	d.Log.Info("daemon started", logevent.DaemonStarted, logevent.Version(d.Version),
		logevent.PID(os.Getpid()), logevent.Mode(d.Config.Mode), logevent.Node(d.Config.NodeName))
	err := d.Serve(ctx)
	log.EndCounts()
	if err != nil {
		d.Log.Error("daemon failed", logevent.DaemonFailed, logevent.Err(err))
		return err
	}
	d.Log.Info("daemon stopped", logevent.DaemonStopped)
	return nil
}

// hangUp handles SIGHUP: it rereads the settings and the cards, and re-registers.
func (r *run) hangUp(ctx context.Context) {
	message := "hangup received, settings unchanged"
	if r.live.take(&r.cfg, r.live.loader.Read()) {
		message = "hangup received"
		r.apply(ctx)
	}
	r.Log.Info(message, logevent.Reloaded, logevent.Devices(slices.Sorted(maps.Keys(r.cfg.Exclude))))
	r.node.Inventory.Hint(inventory.Hint{Source: "sighup", At: time.Now()})
	r.api.Reregister()
}
