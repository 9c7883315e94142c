package main

import (
	"context"
	"encoding/json"
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
	var during time.Duration
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print this node's FPGA devices, and each change",
		Long: `Print this node's FPGA devices, and then one line each time that a device, its holder
or its cordon changes, until interrupted. The command connects to the running daemon at
--socket, which only root can use, and fails when the daemon ends. The daemon's version,
mode and settings are shown in a line that starts with "daemon" or "DRA driver", at the
beginning and whenever they change. With -o json, this line is printed to stderr.

-o state prints the daemon's whole state at the beginning and after each change, as one
JSON object per line. With --for, the command exits after the given time, even if its
output is no longer being read.

With --scan, the command watches the cards itself, without the daemon. It uses settings
from flags (see serve --help), variables and files. It has no history, doesn't register
with the kubelet, and queries the holders only when a device changes.`,
		Example: `  accelerator-device-plugin watch
  accelerator-device-plugin watch -o json
  accelerator-device-plugin watch --scan --recovery-hold 0s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "" && format != "json" && format != wholeState {
				return fmt.Errorf("--output: found %q, want json or %s", format, wholeState)
			}
			if format == wholeState && scan {
				return fmt.Errorf("--output: found %s with --scan, want one of them: a scan has no state", wholeState)
			}
			if during < 0 {
				return fmt.Errorf("--for: found %s, want a duration such as 5m", during)
			}
			if during > 0 {
				ctx, cancel := context.WithTimeout(cmd.Context(), during)
				defer cancel()
				cmd.SetContext(ctx)
			}
			p := &changePrinter{cmd: cmd, format: format}
			if !scan {
				socket, err := daemonSocket(cmd, loader)
				if err != nil {
					return err
				}
				return asFailure(within(during, func() error { return askChanges(p, socket) }))
			}
			cfg, err := load(loader)
			if err != nil {
				return err
			}
			return asFailure(within(during, func() error { return scanChanges(p, cfg, loader.IsSet) }))
		},
	}
	addScan(cmd, loader, &scan)
	cmd.Flags().StringVarP(&format, "output", "o", "", "output `format`: json or state, one object per line (default: text)")
	cmd.Flags().DurationVar(&during, "for", 0, "exit after this time (default: never)")
	return cmd
}

// within calls f with a time limit; 0 means no limit. It stops waiting for f a second after the limit, because f may be
// blocked writing output that nothing reads.
func within(during time.Duration, f func() error) error {
	if during == 0 {
		return f()
	}
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(during + time.Second):
		return nil
	}
}

func askChanges(p *changePrinter, socket string) error {
	err := control.Dial(socket).Watch(p.cmd.Context(), func(state control.State) error {
		if p.format == wholeState {
			return p.printState(state)
		}
		return p.print(stateLine(state), state.Devices)
	})
	if err != nil && p.headline == "" {
		return noDaemon(err)
	}
	return err
}

// scanChanges runs a watcher and an inventory without a server, and prints changes until the command's context is done.
// By default it logs only the watcher's warnings, as text on stderr.
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

// changePrinter prints how each device list differs from the previous one.
type changePrinter struct {
	cmd      *cobra.Command
	format   string
	headline string // the last headline printed; "" if none has been printed yet
	before   []view.Row
}

// printState prints the entire state as one line.
func (p *changePrinter) printState(state control.State) error {
	p.headline = stateLine(state)
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if _, err := p.cmd.OutOrStdout().Write(append(terminal.AppendJSON(nil, text), '\n')); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func (p *changePrinter) print(headline string, rows []view.Row) error {
	out := p.cmd.OutOrStdout()
	if first := p.headline == ""; headline != p.headline {
		p.headline = headline
		heading := out
		if p.format == "json" {
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
		if p.format == "json" {
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
