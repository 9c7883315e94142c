package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sim/demo"
	"b-com.com/accelerator-device-plugin/internal/sim/simnode"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/server"
)

func newDemo() *cobra.Command {
	var interactive bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work, without card, cluster or root",
		Long: `Runs the daemon on a simulated node in a temporary directory, with a stand-in
for the kubelet that speaks the real protocol; plugs cards in, breaks, heals and
pulls them, restarts the kubelet, and shows what the kubelet was told and how
soon. Fails if something was not told.`,
		Example: `  accelerator-device-plugin demo
  accelerator-device-plugin demo --interactive      then play with the directory that it prints`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := config.Defaults()
			cfg.RecoveryHold = time.Second // instead of 10 s, which is long for a demo
			cfg.FlapWindow = 20 * time.Second
			// This must be called before gRPC is used. The library would mix the lines of the daemon
			// with those of the stand-in kubelet.
			server.UseLogger(zap.NewNop())
			// A signal must not leave the directory behind.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP, syscall.SIGQUIT)
			signal.Ignore(syscall.SIGPIPE)
			defer stop()
			return asFailure(demo.Run(ctx, cmd.OutOrStdout(), demo.Options{
				Interactive: interactive, Program: os.Args[0], Colour: terminal.Is(cmd.OutOrStdout()),
				Resource: cfg.ResourceName, Hold: cfg.RecoveryHold,
			}, demoDaemon(cfg)))
		},
	}
	cmd.Flags().BoolVar(&interactive, "interactive", false,
		"keep the node afterwards, and show what the kubelet is told, until interrupted")
	return cmd
}

// demoDaemon returns the daemon as serve runs it, on a simulated node.
func demoDaemon(cfg config.Config) demo.Daemon {
	return func(ctx context.Context, node *simnode.Node, paths demo.Paths, log io.Writer) error {
		cfg.SysfsRoot, cfg.DevRoot, cfg.HostDevRoot = node.Sys, node.Dev, node.Dev
		cfg.KubeletDir, cfg.PodResourcesSocket, cfg.HTTPAddress = paths.KubeletDir, paths.PodResources, ""
		cfg.Socket, cfg.StateDir = paths.Daemon, filepath.Join(filepath.Dir(paths.Daemon), "state")
		return (&service{cfg: cfg, log: newLogger(cfg, log), metrics: metrics.New(buildVersion())}).serve(ctx)
	}
}
