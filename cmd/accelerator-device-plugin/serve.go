package main

import (
	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/grpclog"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/offer"
)

func serveCommand(cmd *cobra.Command, loader *config.Loader) error {
	cfg, err := load(loader)
	if err != nil {
		return err
	}
	counts := metrics.New(buildVersion())
	log := daemon.OpenLog(cfg, cmd.ErrOrStderr(), counts)
	defer log.Close()
	grpclog.Use(log.Logger)
	apiserver.UseLogger(log.Logger)
	if loader.IsSet("accel-nbunits") && cfg.Mode != offer.Pool {
		log.Warn("setting has no effect in this mode", logevent.ConfigNotice, logevent.Flag("accel-nbunits"), logevent.Mode(cfg.Mode))
	}
	annotated := cfg.NodeName != "" && cfg.NodeAnnotation
	if cfg.ProgrammingHook != "" && cfg.Mode != offer.Region && !annotated {
		log.Warn("setting has no effect in this mode", logevent.ConfigNotice,
			logevent.Flag("programming-hook"), logevent.Mode(cfg.Mode))
	}
	d := deviceplugin.New(buildVersion(), cfg, log.Logger, counts, nil)
	d.Loader = loader
	if err := d.Live(cmd.Context(), log); err != nil {
		return failure{error: err, logged: true}
	}
	return nil
}
