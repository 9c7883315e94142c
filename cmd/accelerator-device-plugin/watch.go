package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
)

func newWatch() *cobra.Command {
	loader := daemon.NewLoader()
	var format string
	var scan bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print the FPGA devices of this node, and each change",
		Long: `Print the FPGA devices of this node, then one line for each change of a device,
its holder or its cordon, until interrupted. The command asks the running daemon
at --socket, which only root can use, and fails when the daemon ends. A line that
begins with "daemon" or "DRA driver" shows its version, mode and settings: at the
start and after each change of them. With -o json it is on stderr.

With --scan the command watches the cards itself, without the daemon. Its settings
come from flags (all those of serve --help), variables and files. It has no history,
registers nothing with the kubelet, and asks for holders only when a device changes.`,
		Example: `  accelerator-device-plugin watch
  accelerator-device-plugin watch -o json
  accelerator-device-plugin watch --scan --recovery-hold 0s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON, err := parseJSON(format)
			if err != nil {
				return err
			}
			p := &changePrinter{cmd: cmd, asJSON: asJSON}
			if !scan {
				socket, err := daemonSocket(cmd, loader)
				if err != nil {
					return err
				}
				return asFailure(askChanges(p, socket))
			}
			cfg, err := load(loader)
			if err != nil {
				return err
			}
			return asFailure(scanChanges(p, cfg, loader.IsSet))
		},
	}
	addScan(cmd, loader, &scan)
	cmd.Flags().StringVarP(&format, "output", "o", "", "output `format`: json, one object per line (default: text)")
	return cmd
}

func askChanges(p *changePrinter, socket string) error {
	err := control.Dial(socket).Watch(p.cmd.Context(), func(state control.State) error {
		return p.print(stateLine(state), state.Devices)
	})
	if err != nil && p.headline == "" {
		return noDaemon(err)
	}
	return err
}

// scanChanges runs a watcher and an inventory without a server, and prints the changes until the
// command's context ends. By default it logs only warnings of the watcher, as text on stderr.
func scanChanges(p *changePrinter, cfg config.Config, isSet func(string) bool) error {
	if !isSet("log-format") {
		cfg.LogFormat = "console"
	}
	quiet := zapcore.DebugLevel
	if !isSet("log-level") {
		cfg.LogLevel, quiet = zapcore.WarnLevel.String(), zapcore.ErrorLevel
	}
	log := daemon.NewLogger(cfg, p.cmd.ErrOrStderr())
	watched := daemon.Watching(cfg, metrics.New(buildVersion()))
	node, err := daemon.OpenNode(cfg, watched, log, log.WithOptions(zap.IncreaseLevel(max(quiet, zapcore.LevelOf(log.Core())))))
	if err != nil {
		return err
	}
	source := holders.New(deviceplugin.Sources(cfg, daemon.OfferNaming(cfg).Owns))
	tasks, ctx := errgroup.WithContext(p.cmd.Context())
	tasks.Go(func() error { return node.Watch(ctx) })
	tasks.Go(func() error { return node.Inventory.Run(ctx) })
	tasks.Go(func() error {
		for {
			snapshot, stale := node.Inventory.Latest()
			if snapshot.Version > 0 {
				asking, cancel := context.WithTimeout(ctx, time.Second)
				list := view.List{Devices: snapshot.Devices, HostDev: cfg.HostDevRoot, HostSys: cfg.HostSysfsRoot, Use: source.Recent(asking)}
				cancel()
				if err := p.print(scanLine, list.Rows()); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-stale:
			}
		}
	})
	return tasks.Wait()
}

// changePrinter prints the changes from each list of devices to the next.
type changePrinter struct {
	cmd      *cobra.Command
	asJSON   bool
	headline string // printed last; "": none was printed yet
	before   []view.Row
}

func (p *changePrinter) print(headline string, rows []view.Row) error {
	out := p.cmd.OutOrStdout()
	if first := p.headline == ""; headline != p.headline {
		p.headline = headline
		heading := out
		if p.asJSON {
			heading = p.cmd.ErrOrStderr()
		}
		fmt.Fprintln(heading, headline)
		if first && len(rows) == 0 && terminal.Is(p.cmd.ErrOrStderr()) {
			fmt.Fprintln(p.cmd.ErrOrStderr(), "no devices yet, watching")
		}
	}
	colour := terminal.Is(out)
	for _, change := range view.Changes(p.before, rows, time.Now().Format("2006-01-02T15:04:05.000Z07:00")) {
		line := []byte(change.Line(colour) + "\n")
		if p.asJSON {
			var err error
			if line, err = change.JSON(); err != nil {
				return err
			}
		}
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	p.before = rows
	return nil
}
