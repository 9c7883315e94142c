package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/internal/release"
)

const program = "accelerator-dra-driver"

// version is set at build time by the Makefile.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// Restore the default action, so that a second signal kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	var f failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return 1
	}
	daemon.LogUsage(stderr, err) // stderr must contain one JSON object per line
	return 2
}

// failure is an error that occurred after the settings were accepted. It has already been logged.
type failure struct{ error }

const help = `Run the Kubernetes DRA driver for FPGA cards on this node. It publishes the
cards in ResourceSlices, and prepares them for pods' claims. It updates the slices
when a card is plugged in, pulled, reprogrammed, fails or recovers.

Each setting has a flag (--resync-interval) and an environment variable
(ACCELERATOR_RESYNC_INTERVAL). Most of them also have a key in the YAML file of
--config (resyncInterval). Flags take precedence over variables, and variables
take precedence over the file.

The commands of accelerator-device-plugin also work with the driver: devices, watch,
check, cordon, uncordon, forget and can-pull connect to --socket, and logs reads the
driver's log.

Exit codes: 0 success, 1 failure, 2 usage error.`

func newCommand() *cobra.Command {
	loader := daemon.NewLoader()
	var s settings
	cmd := &cobra.Command{
		Use:   program,
		Short: "Kubernetes DRA driver for FPGA cards",
		Long:  help,
		Example: `  accelerator-dra-driver --node-name worker-3                    run the driver on this node
  accelerator-dra-driver --node-name worker-3 --taint-effect NoSchedule --log-format console
  accelerator-dra-driver --node-name worker-3 --kubeconfig admin.kubeconfig --mode region`,
		Args:              cobra.NoArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	showVersion := cmd.Flags().BoolP("version", "v", false, "print the version")
	addSettings(cmd.Flags(), loader, &s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *showVersion {
			fmt.Fprint(cmd.OutOrStdout(), release.Line(program, buildVersion()))
			return nil
		}
		return serve(cmd, loader, &s)
	}
	return cmd
}

func buildVersion() string { return release.Version(version) }
