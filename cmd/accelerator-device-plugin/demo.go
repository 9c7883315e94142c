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

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/grpclog"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/inventory/aws"
	"b-com.com/accelerator-device-plugin/inventory/vfio"
	"b-com.com/accelerator-device-plugin/inventory/xrt"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/sim/demo"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

func newDemo() *cobra.Command {
	var interactive, functions, withXRT, onAWS bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demonstration without a card, a cluster or root",
		Long: `Run the daemon on a simulated node in a temporary directory, with a simulated
kubelet that speaks the real protocol. The demonstration plugs, breaks, heals and
pulls cards, restarts the kubelet, and prints each list that the kubelet receives
and its latency. It fails if the kubelet doesn't receive a list that it should.

With --vfio, the card has virtual functions on vfio-pci instead of ports. With --xrt,
it is an AMD card with XRT, and with --aws, it is a card on an AWS F2 instance.`,
		Example: `  accelerator-device-plugin demo
  accelerator-device-plugin demo --vfio
  accelerator-device-plugin demo --xrt
  accelerator-device-plugin demo --aws
  accelerator-device-plugin demo --interactive      then change files in the directory that it prints`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := config.Defaults()
			cfg.RecoveryHold = time.Second // the default of 10 s is too long for a demo
			cfg.FlapWindow = 20 * time.Second
			resource := cfg.ResourceName
			switch {
			case withXRT:
				resource = "amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0"
				cfg.Families = append(cfg.Families, xrt.Family{}.Name())
			case functions: // they are only advertised if there is a rule for them
				resource = "example.com/ofs-vf"
				cfg.Families = append(cfg.Families, vfio.Family{}.Name())
				cfg.Resources = []offer.Rule{{Resource: resource, Match: offer.Match{Family: vfio.Family{}.Name()}}}
			}
			if onAWS {
				cfg.Families = append(cfg.Families, aws.Family{}.Name())
			}
			// The daemon and the simulated kubelet share the gRPC library, whose log lines wouldn't say which of the
			// two they come from. Use must be called before anything else uses gRPC.
			grpclog.Use(zap.NewNop())
			// Catch these signals too, so that the directory of the simulated node is always removed.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP, syscall.SIGQUIT)
			signal.Ignore(syscall.SIGPIPE)
			defer stop()
			return asFailure(demo.Run(ctx, cmd.OutOrStdout(), demo.Options{
				Interactive: interactive, Functions: functions, XRT: withXRT, AWS: onAWS, Program: os.Args[0], Colour: terminal.Is(cmd.OutOrStdout()),
				Resource: resource, Hold: cfg.RecoveryHold,
			}, demoDaemon(cfg)))
		},
	}
	cmd.Flags().BoolVar(&interactive, "interactive", false,
		"keep the node running at the end, and print the lists that the kubelet receives, until interrupted")
	cmd.Flags().BoolVar(&functions, "vfio", false, "show functions on vfio-pci")
	cmd.Flags().BoolVar(&withXRT, "xrt", false, "show an AMD card with XRT")
	cmd.Flags().BoolVar(&onAWS, "aws", false, "show a card on an AWS instance")
	cmd.MarkFlagsMutuallyExclusive("interactive", "vfio", "xrt", "aws")
	return cmd
}

// demoDaemon returns a function that runs the daemon on a simulated node, as serve would.
func demoDaemon(cfg config.Config) demo.Daemon {
	return func(ctx context.Context, node *simnode.Node, paths demo.Paths, log io.Writer) error {
		cfg.SysfsRoot, cfg.HostSysfsRoot, cfg.DevRoot, cfg.HostDevRoot = node.Sys, node.Sys, node.Dev, node.Dev
		cfg.KubeletDir, cfg.PodResourcesSocket, cfg.HTTPAddress = paths.KubeletDir, paths.PodResources, ""
		cfg.Socket, cfg.StateDir = paths.Daemon, filepath.Join(filepath.Dir(paths.Daemon), "state")
		return deviceplugin.New(buildVersion(), cfg, daemon.NewLogger(cfg, log), metrics.New(buildVersion()), nil).Serve(ctx)
	}
}
