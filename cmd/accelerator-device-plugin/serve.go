package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/offer"
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
