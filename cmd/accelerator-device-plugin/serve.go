package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/view"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/watcher"
)

func serveCommand(cmd *cobra.Command, loader *config.Loader) error {
	cfg, err := load(loader)
	if err != nil {
		return err
	}
	log := newLogger(cfg, cmd.ErrOrStderr())
	server.UseLogger(log)
	if loader.IsSet("accel-nbunits") && cfg.Mode != offer.Pool {
		log.Warn("setting has no effect in this mode", event.ConfigNotice, event.Flag("accel-nbunits"), event.Mode(cfg.Mode))
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	// Little lives long here, so a small heap costs next to nothing: about 2 MiB
	// less stay resident. Whoever sets GOGC knows better.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	// Who reads the log may go: the lines are lost then, not the daemon.
	signal.Ignore(syscall.SIGPIPE)

	log.Info("daemon started", event.DaemonStarted, event.Version(buildVersion()), event.PID(os.Getpid()), event.Mode(cfg.Mode))
	reload := func() (config.Config, []string, error) { return loader.Again(os.LookupEnv) }
	if err := serve(cmd.Context(), cfg, hangups, reload, log); err != nil {
		log.Error("daemon failed", event.DaemonFailed, event.Err(err))
		return failure{error: err, logged: true}
	}
	log.Info("daemon stopped", event.DaemonStopped)
	return nil
}

// reload reads the settings again. It returns them and the keys of those that have
// changed and need a restart.
type reload func() (config.Config, []string, error)

// serve joins the parts and runs them until ctx ends.
func serve(ctx context.Context, cfg config.Config, hangups <-chan os.Signal, again reload, log *zap.Logger) error {
	policy := policyOf(cfg)
	var srv *server.Server
	watched := watching(cfg)
	watched.Holders = holdersOf(cfg, policy, func() map[string][]string { return srv.Allocated() })
	watched.AnyAFU = policy.AnyAFU()
	node, err := openNode(cfg, watched, log, log)
	if err != nil {
		return err
	}
	settings := server.Defaults()
	settings.KubeletDir, settings.HostDevRoot, settings.Policy = cfg.KubeletDir, cfg.HostDevRoot, policy
	srv, err = server.New(settings, node.inventory, log)
	if err != nil {
		node.watcher.Close()
		return fmt.Errorf("server: %w", err)
	}

	tasks, ctx := errgroup.WithContext(ctx)
	task := func(name string, run func() error) {
		tasks.Go(func() error {
			if err := run(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	task("watcher", func() error { return node.watch(ctx) })
	task("inventory", func() error { return node.inventory.Run(ctx) })
	task("server", func() error { return srv.Run(ctx) })
	task("hangups", func() error { return followHangups(ctx, hangups, sorted(cfg.Exclude), again, node.inventory, srv, log) })
	if cfg.HTTPAddress != "" {
		task("http", func() error {
			return httpd.Run(ctx, cfg.HTTPAddress, httpd.Answers{
				Alive: node.inventory.Alive,
				Ready: func() error { return ready(node.inventory, srv) },
				Devices: func(ctx context.Context) any {
					snapshot, _ := node.inventory.Latest()
					holders, _ := askHolders(ctx, cfg.PodResourcesSocket, holdersSoon) // not known: shown as none
					return view.Rows(snapshot.Devices, cfg.HostDevRoot, policy.ResourceOf, holders.lookup())
				},
			}, log)
		})
	}
	task("signal", func() error {
		<-ctx.Done()
		log.Info("daemon stopping", event.DaemonStopping, event.Reason(context.Cause(ctx).Error()))
		return nil
	})
	return tasks.Wait()
}

// ready is nil when the first scan is done and each resource has a stream.
func ready(inv *inventory.Inventory, srv *server.Server) error {
	if snapshot, _ := inv.Latest(); snapshot.Version == 0 {
		return fmt.Errorf("inventory: first scan is not done")
	}
	return srv.Ready()
}

// followHangups takes over what the operator says about devices, scans and
// registers again at each SIGHUP; the original did the latter two.
func followHangups(ctx context.Context, hangups <-chan os.Signal, excluded []string, again reload, inv *inventory.Inventory, srv *server.Server, log *zap.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			message := "hangup received"
			if cfg, ok := takeOver(again, inv, log); ok {
				excluded = sorted(cfg.Exclude)
			} else {
				message += ", settings unchanged"
			}
			log.Info(message, event.Reloaded, event.Devices(excluded))
			inv.Hint(inventory.Hint{Source: "sighup", At: time.Now()})
			srv.Reregister()
		}
	}
}

// takeOver reads the settings again. What is wrong changes nothing.
func takeOver(again reload, inv *inventory.Inventory, log *zap.Logger) (cfg config.Config, ok bool) {
	cfg, restart, err := again()
	if err != nil {
		log.Error("configuration refused, the old one stays", event.ConfigRefused, event.Err(err))
		return cfg, false
	}
	for _, key := range restart {
		log.Warn("changed setting needs a restart", event.ConfigNotice, event.Flag(key))
	}
	inv.Use(said(cfg))
	return cfg, true
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// watch feeds the inventory with what the watcher hears.
func (n *node) watch(ctx context.Context) error {
	return n.watcher.Run(ctx, func(h watcher.Hint) { n.inventory.Hint(inventory.Hint(h)) })
}
