package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/view"
	"b-com.com/accelerator-device-plugin/inventory"
)

func newDevices() *cobra.Command {
	loader := newLoader()
	var format string
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "Print the FPGA devices of this node",
		Long: `Prints the FPGA devices of this node. It scans by itself: no daemon is needed.
It is one look, without history: what a daemon knows beside it (holds, flapping,
counters that rose) is at its --http-address under /devices.

Where the kubelet's pod-resources socket can be asked, it also says which
container holds which device, and lists devices that are held though they are
not on the node any more. HOLDER "?" means that the kubelet could not be asked. A
card that is bad is printed as such; that is no
failure.`,
		Example: `  accelerator-device-plugin devices
  accelerator-device-plugin devices -o wide
  accelerator-device-plugin devices -o json | jq -r '.[] | [.id, .health, (.holder | join(" "))] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "" && !slices.Contains(view.Formats, format) {
				return fmt.Errorf("-o %q: want one of %s", format, strings.Join(view.Formats, ", "))
			}
			cfg, err := load(loader)
			if err != nil {
				return err
			}
			return asFailure(devices(cmd, cfg, format, loader.IsSet("pod-resources-socket")))
		},
	}
	loader.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&format, "output", "o", "", "json, yaml or wide (default: a table)")
	return cmd
}

func devices(cmd *cobra.Command, cfg config.Config, format string, insist bool) error {
	snapshot, err := scanOnce(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	holders, err := askHolders(cmd.Context(), cfg.PodResourcesSocket, holdersPatient)
	// Who reads "nobody" where nobody was asked may pull a card under a pod.
	if err != nil && (insist || len(snapshot.Devices) > 0 || !errors.Is(err, fs.ErrNotExist)) {
		fmt.Fprintf(cmd.ErrOrStderr(), "accelerator-device-plugin: who holds a device is not known: %v\n", err)
	}
	policy := policyOf(cfg)
	all := slices.Concat(snapshot.Devices, inventory.Missing(snapshot.Devices, holders.ours(policy)))
	slices.SortFunc(all, func(a, b *inventory.Device) int { return strings.Compare(a.ID, b.ID) })
	rows := view.Rows(all, cfg.HostDevRoot, policy.ResourceOf, holders.lookup())
	return view.Print(cmd.OutOrStdout(), rows, format, isTerminal(cmd.OutOrStdout()))
}

// scanOnce runs an inventory until each card has answered, or was given up.
func scanOnce(ctx context.Context, cfg config.Config) (inventory.Snapshot, error) {
	host, err := openHost(cfg)
	if err != nil {
		return inventory.Snapshot{}, err
	}
	cfg.ResyncInterval, cfg.HealthInterval = time.Hour, time.Hour // once is enough
	inv := inventory.New(watching(cfg), host, families(cfg), zap.NewNop())

	// Longer than any card may take: what has not been seen by then, directories
	// included, will not be.
	ctx, cancel := context.WithTimeout(ctx, readTimeout+time.Second)
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
		err = fmt.Errorf("%s: not all cards could be looked at: %w", cfg.SysfsRoot, err)
	}
	cancel()
	return snapshot, errors.Join(err, tasks.Wait())
}
