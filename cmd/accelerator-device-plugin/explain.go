package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/docs"
)

func newExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [REASON]",
		Short: "Explain what a device's reason means, and what to do about it",
		Long: `Explain what a device's reason means, and what to do about it, using the text from
docs/health.md. REASON is NAME or NAME=VALUE, as shown by devices, the log and Events.
Without REASON, all reasons are listed. The command doesn't need the daemon.`,
		Example: `  accelerator-device-plugin explain port-ap6
  accelerator-device-plugin explain power-throttled=6
  accelerator-device-plugin explain`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := docs.Text(strings.Join(args, ""))
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return asFailure(err)
		},
	}
}
