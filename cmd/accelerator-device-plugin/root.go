package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/release"
)

// version is set at build time by the Makefile.
var version = ""

const rootHelp = `Run the Kubernetes device plugin for FPGA cards on this node. It reports the
cards to the kubelet, and updates the report when a card is plugged in, pulled,
reprogrammed, fails or recovers.

Without a command, it runs the daemon (serve). Each setting has a flag
(--resync-interval), an environment variable (ACCELERATOR_RESYNC_INTERVAL) and a
key in the YAML file of --config (resyncInterval). Flags take precedence over
variables, and variables take precedence over the file.

--mode selects what is advertised as a device, and under which resource name:
  single       each port, all under the same resource (--resource-name)
  af           each port, with one resource for each AFU (fpga.intel.com/af-…)
  region       each card with all its ports, with one resource for each interface (fpga.intel.com/region-…)
  regiondevel  like region, plus the device node of the card's FME
  pool         a number of units, without any hardware (--accel-nbunits)

Exit codes: 0 success, 1 failure, 2 usage error. The check command has its own exit codes.`

const rootExamples = `  accelerator-device-plugin                            run the daemon on this node
  accelerator-device-plugin --log-format console       run the daemon with a plain-text log
  accelerator-device-plugin devices                    show the devices, their health and the containers that use them
  accelerator-device-plugin devices --scan --mode af   show the devices in another mode, without the daemon
  accelerator-device-plugin devices -o json | jq -r '.[] | select(.health != "healthy") | .id'
  accelerator-device-plugin watch                      print one line for each change, until interrupted
  accelerator-device-plugin cordon 3b:00.0 --why fan   take the card out of service, so that new pods don't get it
  accelerator-device-plugin uncordon 3b:00.0           put the card back into service
  accelerator-device-plugin forget 3b:00.0             forget a missing card that will not come back
  accelerator-device-plugin can-pull 3b:00.0           check whether it is safe to pull the card, and if not, why
  accelerator-device-plugin check                      check whether the cards need attention (exit code)
  accelerator-device-plugin explain port-ap6           explain what a reason means, and what to do
  accelerator-device-plugin logs daemon.log            print the history of the devices from a log
  accelerator-device-plugin demo                       run a demonstration without a card or a cluster
  accelerator-device-plugin simulate DIR               create a simulated node, to try out the chart`

func newRoot() *cobra.Command {
	loader := daemon.NewLoader()
	root := &cobra.Command{
		Use:               "accelerator-device-plugin [serve]",
		Short:             "Kubernetes device plugin for FPGA cards",
		Long:              rootHelp,
		Example:           rootExamples,
		Args:              noUnknownCommand,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	// Don't use Cobra's built-in version flag, because its templates make the linker keep every method of every type,
	// which would add 2 MB to the binary.
	version := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return printVersion(cmd)
		}
		return serveCommand(cmd, loader)
	}
	root.SuggestionsMinimumDistance = 2
	loader.AddFlags(root.Flags())
	root.AddCommand(newServe(), newDevices(), newWatch(), newCordon(), newUncordon(), newForget(), newCanPull(), newCheck(), newExplain(), newLogs(), newDemo(),
		newSimulate(), newVersion(), newRefuse(), newGranted())
	return root
}

// unknownCommand is the error for a word that isn't one of the program's commands.
type unknownCommand struct {
	word    string
	similar []string
}

func (u unknownCommand) Error() string {
	if len(u.similar) == 0 {
		return fmt.Sprintf("unknown command %q", u.word)
	}
	return fmt.Sprintf("unknown command %q; did you mean %s?", u.word, strings.Join(u.similar, " or "))
}

func noUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand{args[0], cmd.SuggestionsFor(args[0])}
}

func newServe() *cobra.Command {
	loader := daemon.NewLoader()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon (the default command)",
		Example: `  accelerator-device-plugin serve --mode pool --accel-nbunits 8
  accelerator-device-plugin serve --config /etc/accelerator-device-plugin.yaml
  accelerator-device-plugin serve --mode af --config /etc/accelerator-device-plugin.yaml
  kill -HUP $(pidof accelerator-device-plugin)       reload exclude, health and resources from the files, read all cards and register again
  kill -USR1 $(pidof accelerator-device-plugin)      switch log level debug on, or off again`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveCommand(cmd, loader) },
	}
	loader.AddFlags(cmd.Flags())
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  accelerator-device-plugin version",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

// newRefuse returns a command that always fails. The chart's test uses it when there is nothing to test.
func newRefuse() *cobra.Command {
	return &cobra.Command{
		Use:    "refuse REASON",
		Short:  "Print a reason and fail",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return failure{error: errors.New(args[0])} },
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprint(cmd.OutOrStdout(), release.Line("accelerator-device-plugin", buildVersion()))
	return asFailure(err)
}

func buildVersion() string { return release.Version(version) }

// load returns the command's configuration. The flags must already have been parsed.
func load(loader *config.Loader) (config.Config, error) {
	err := loader.Load(os.LookupEnv)
	return loader.Config, err
}

func asFailure(err error) error {
	if err == nil {
		return nil
	}
	return failure{error: err}
}
