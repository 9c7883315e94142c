package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/internal/view"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/offer"
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

A device whose RESOURCE is "-" is not offered in this mode. With -o wide, rules
for resources by which no device is offered are named on stderr.

Where the kubelet's pod-resources socket can be asked, it also says which
container holds which device, and lists devices that are held though they are
not on the node any more. HOLDER "?" means that the kubelet could not be asked.
A card that is bad is printed as such; that is no failure.`,
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
	policy := policyOf(cfg)
	watched := watching(cfg, metrics.New(buildVersion()))
	asked := time.Now()
	holders, unknown := askHolders(cmd.Context(), cfg.PodResourcesSocket, holdersPatient)
	if unknown == nil {
		source := holderSource{kubeletDir: cfg.KubeletDir, owns: policy.Owns, given: server.NewAllocations(0)}
		watched.Holders = func(ctx context.Context) (map[string][]inventory.Holding, error) {
			return source.complete(ctx, asked, holders)
		}
	}
	snapshot, err := scanOnce(cmd.Context(), cfg, watched)
	if err != nil {
		return err
	}
	// If unknown holders were printed as none, a user might pull a card that a pod uses.
	if unknown != nil && (insist || len(snapshot.Devices) > 0 || !errors.Is(unknown, fs.ErrNotExist)) {
		fmt.Fprintf(cmd.ErrOrStderr(), "accelerator-device-plugin: who holds a device is not known: %s\n",
			terminal.Escape(unknown.Error()))
	}
	rows := view.List{Devices: snapshot.Devices, HostDev: cfg.HostDevRoot, Holders: holders.lookup()}.Rows()
	if err := view.Print(cmd.OutOrStdout(), rows, format, terminal.Is(cmd.OutOrStdout())); err != nil {
		return err
	}
	if format == "wide" {
		printIdleRules(cmd.ErrOrStderr(), policy, snapshot.Devices)
	}
	return nil
}

// printIdleRules prints the rules that apply to no device: the rule is wrong, there is no such
// card, or an earlier rule matches the same devices.
func printIdleRules(w io.Writer, policy offer.Policy, devices []*inventory.Device) {
	used := make(map[int]bool)
	for _, d := range devices {
		used[policy.RuleOf(d)] = true
	}
	for i, rule := range policy.Rules {
		if !used[i] {
			fmt.Fprintf(w, "accelerator-device-plugin: no device is offered by rule %d of resources: %s\n", i+1, rule)
		}
	}
}

// scanOnce blocks until each card has been read or given up, and returns the devices.
func scanOnce(ctx context.Context, cfg config.Config, watched inventory.Config) (inventory.Snapshot, error) {
	host, err := openHost(cfg)
	if err != nil {
		return inventory.Snapshot{}, err
	}
	watched.ResyncInterval, watched.HealthInterval = time.Hour, time.Hour // longer than scanOnce takes
	inv := inventory.New(watched, host, zap.NewNop())

	// Longer than any reading may take. A directory that cannot be listed by then hangs.
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
