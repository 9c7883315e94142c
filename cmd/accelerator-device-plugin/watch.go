package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/internal/view"
)

func newWatch() *cobra.Command {
	loader := newLoader()
	var format string
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print one line per change of the FPGA devices of this node",
		Long: `Prints the FPGA devices of this node, then one line per change as it happens,
until it is interrupted. It watches by itself: no daemon is needed, and the
kubelet is not told anything.`,
		Example: `  accelerator-device-plugin watch
  accelerator-device-plugin watch --recovery-hold 0s -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON, err := wantsJSON(format)
			if err != nil {
				return err
			}
			cfg, err := load(loader)
			if err != nil {
				return err
			}
			return asFailure(watch(cmd, cfg, asJSON, loader.IsSet))
		},
	}
	loader.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&format, "output", "o", "", "json: one object per line (default: text)")
	return cmd
}

// watch runs the watcher and the inventory of the daemon, without a server, and prints the
// changes. By default it logs only warnings of the watcher, as text on stderr.
func watch(cmd *cobra.Command, cfg config.Config, asJSON bool, isSet func(string) bool) error {
	if !isSet("log-format") {
		cfg.LogFormat = "console"
	}
	quiet := zapcore.DebugLevel
	if !isSet("log-level") {
		cfg.LogLevel, quiet = zapcore.WarnLevel.String(), zapcore.ErrorLevel
	}
	log := newLogger(cfg, cmd.ErrOrStderr())
	watched := watching(cfg, metrics.New(buildVersion()))
	node, err := openNode(cfg, watched, log, log.WithOptions(zap.IncreaseLevel(max(quiet, zapcore.LevelOf(log.Core())))))
	if err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(cmd.Context())
	tasks.Go(func() error { return node.watch(ctx) })
	tasks.Go(func() error { return node.inventory.Run(ctx) })
	tasks.Go(func() error { return printChanges(ctx, cmd, cfg, node, asJSON) })
	return tasks.Wait()
}

func printChanges(ctx context.Context, cmd *cobra.Command, cfg config.Config, node *node, asJSON bool) error {
	colour := terminal.Is(cmd.OutOrStdout())
	var before view.List
	first := true
	for {
		snapshot, stale := node.inventory.Latest()
		if snapshot.Version > 0 && first {
			first = false
			if len(snapshot.Devices) == 0 && terminal.Is(cmd.ErrOrStderr()) {
				fmt.Fprintln(cmd.ErrOrStderr(), "no devices yet, watching")
			}
		}
		holders, _ := askHolders(ctx, cfg.PodResourcesSocket, holdersSoon) // unknown holders are printed as none
		list := view.List{Devices: snapshot.Devices, HostDev: cfg.HostDevRoot, Holders: holders.lookup()}
		for _, change := range view.Changes(before, list, time.Now().Format("2006-01-02T15:04:05.000Z07:00")) {
			line := []byte(change.Line(colour) + "\n")
			if asJSON {
				var err error
				if line, err = change.JSON(); err != nil {
					return err
				}
			}
			if _, err := cmd.OutOrStdout().Write(line); err != nil {
				return fmt.Errorf("output: %w", err)
			}
		}
		before = list
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
		}
	}
}
