package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// wholeState is the --output value that selects the whole [control.State].
const wholeState = "state"

func newDevices() *cobra.Command {
	loader := daemon.NewLoader()
	var format string
	var scan bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "Print this node's FPGA devices",
		Long: `Print this node's FPGA devices, as the running daemon sees them. The command connects
to the daemon at --socket, which only root can use. The first line shows the daemon's
version, mode and settings. With -o json and -o yaml, it is printed to stderr.

With --scan, the command reads the cards itself, without the daemon. It uses settings
from flags (see serve --help), variables and files. A scan has no history, so it can't
show recovery holds, quarantines and cordons.

If a device's RESOURCE is "-", the device isn't advertised in this mode. With -o wide,
the command also lists resource rules that don't match any device on stderr.

HOLDER is the container that uses the device, according to the kubelet. "not named
yet" means that the device was allocated, but the kubelet doesn't list its container
yet. "?" means that the kubelet couldn't be queried or has just started. A device that
was removed from the node stays listed while a container uses it.

-o state prints the daemon's whole state as one JSON object, including its version,
settings and cordons, and its cards' history.

The exit code is 0 even if devices are unhealthy.`,
		Example: `  accelerator-device-plugin devices
  accelerator-device-plugin devices -o wide
  accelerator-device-plugin devices --scan --mode af
  accelerator-device-plugin devices -o json | jq -r '.[] | [.id, .health, (.holder | join(" "))] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if formats := append(view.Formats[:len(view.Formats):len(view.Formats)], wholeState); format != "" && !slices.Contains(formats, format) {
				return fmt.Errorf("--output: found %q, want one of %s", format, strings.Join(formats, ", "))
			}
			if !scan {
				socket, err := daemonSocket(cmd, loader)
				if err != nil {
					return err
				}
				return asFailure(askDevices(cmd, socket, format))
			}
			cfg, err := load(loader)
			if err != nil {
				return err
			}
			return asFailure(scanDevices(cmd, cfg, format, loader.IsSet("pod-resources-socket")))
		},
	}
	addScan(cmd, loader, &scan)
	cmd.Flags().StringVarP(&format, "output", "o", "", "output `format`: json, yaml, wide or state (default: a table)")
	return cmd
}

func askDevices(cmd *cobra.Command, socket, format string) error {
	state, err := control.Dial(socket).State(cmd.Context())
	if err != nil {
		return noDaemon(err)
	}
	return printDevices(cmd, state, stateLine(state), format)
}

// printDevices prints the headline and then the devices in state.
func printDevices(cmd *cobra.Command, state control.State, headline, format string) error {
	out := cmd.OutOrStdout()
	if format == wholeState {
		return terminal.WriteJSON(out, state)
	}
	if format == "json" || format == "yaml" {
		out = cmd.ErrOrStderr()
	}
	fmt.Fprintln(out, headline)
	// Without this note, a user might think that no pod is using a card, and pull one that is in use.
	if state.HoldersError != "" {
		note(cmd, "the holders of devices are not known: "+state.HoldersError)
	}
	if state.StateDirError != "" {
		note(cmd, state.StateDirError)
	}
	if err := view.Print(cmd.OutOrStdout(), state.Devices, format, terminal.Is(cmd.OutOrStdout())); err != nil {
		return err
	}
	if format == "" || format == "wide" {
		var lines []string
		for _, c := range state.Cordons {
			lines = append(lines, c.String())
		}
		if err := printLines(cmd.OutOrStdout(), lines); err != nil {
			return err
		}
	}
	if format == "wide" {
		for _, rule := range state.IdleRules {
			note(cmd, "no device is offered by "+rule)
		}
	}
	return nil
}

// scanDevices scans once and prints the devices. If insist is true, it prints a note about a missing kubelet socket
// even if there are no devices.
func scanDevices(cmd *cobra.Command, cfg config.Config, format string, insist bool) error {
	state, err := deviceplugin.Scan(cmd.Context(), cfg, insist)
	if err != nil {
		return err
	}
	return printDevices(cmd, state, scanLine, format)
}
