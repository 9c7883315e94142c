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
		Short: "Print what a reason of a device means, and what to do",
		Long: `Print what a reason of a device means, and what to do about it: the text of
docs/health.md. REASON is NAME or NAME=VALUE, as devices and flaps show it. Without
REASON, list all reasons. The command needs no cluster.`,
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
