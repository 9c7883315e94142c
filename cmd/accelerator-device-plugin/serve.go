package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/offer"
)

func serveCommand(cmd *cobra.Command, loader *config.Loader) error {
	cfg, err := load(loader)
	if err != nil {
		return err
	}
	// If the reader of the log closes its end, lines are lost; the daemon goes on.
	signal.Ignore(syscall.SIGPIPE)
	counts := metrics.New(buildVersion())
	log := openLog(cfg, cmd.ErrOrStderr(), counts)
	defer log.close()
	server.UseLogger(log.Logger)
	if loader.IsSet("accel-nbunits") && cfg.Mode != offer.Pool {
		log.Warn("setting has no effect in this mode", event.ConfigNotice, event.Flag("accel-nbunits"), event.Mode(cfg.Mode))
	}
	hangups, toggles := notified(syscall.SIGHUP), notified(syscall.SIGUSR1)
	defer signal.Stop(hangups)
	defer signal.Stop(toggles)

	// Little lives long here, so a small heap costs next to nothing: about 2 MiB
	// less stay resident. Whoever sets GOGC knows better.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}

	reload := func() (config.Config, []string, error) { return loader.Again(os.LookupEnv) }
	return newService(cfg, hangups, reload, log.Logger, counts).live(cmd.Context(), log, toggles)
}

// notified returns what hears a signal from now on.
func notified(s os.Signal) chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, s)
	return c
}

// live runs the daemon until ctx ends, and says in the log how it began and ended.
func (s *service) live(ctx context.Context, log *daemonLog, toggles <-chan os.Signal) error {
	s.log.Info("daemon started", event.DaemonStarted, event.Version(buildVersion()), event.PID(os.Getpid()), event.Mode(s.cfg.Mode), event.Node(s.cfg.NodeName))
	end := log.follow(toggles)
	err := s.serve(ctx)
	end()
	if err != nil {
		s.log.Error("daemon failed", event.DaemonFailed, event.Err(err))
		return failure{error: err, logged: true}
	}
	s.log.Info("daemon stopped", event.DaemonStopped)
	return nil
}
