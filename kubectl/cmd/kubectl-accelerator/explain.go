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
docs/health.md. REASON is NAME or NAME=VALUE, as shown by devices and flaps. Without
REASON, all reasons are listed. The command doesn't need a cluster.`,
		Example: `  kubectl accelerator explain port-ap6
  kubectl accelerator explain power-throttled=6
  kubectl accelerator explain`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(docs.Names(), cobra.ShellCompDirectiveNoFileComp),
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
