package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/docs"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

func newExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [REASON]",
		Short: "Print what a reason of a device means, and what to do",
		Long: `Print what a reason of a device means, and what to do about it: the text of
docs/health.md. REASON is NAME or NAME=VALUE, as devices, the log and Events show it.
Without REASON, list all reasons. The command needs no daemon.`,
		Example: `  accelerator-device-plugin explain port-ap6
  accelerator-device-plugin explain power-throttled=6
  accelerator-device-plugin explain`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return asFailure(listReasons(cmd))
			}
			found := docs.Explain(args[0])
			if found == nil {
				return fmt.Errorf("REASON: found %q, want one of %s", args[0], strings.Join(reasonNames(), ", "))
			}
			return asFailure(explain(cmd, found))
		},
	}
}

// reasonNames returns the NAMEs of all reasons, in the order of docs/health.md.
func reasonNames() (names []string) {
	for _, r := range docs.Reasons() {
		for _, n := range r.Names {
			if name, _, _ := strings.Cut(n, "="); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func listReasons(cmd *cobra.Command) error {
	table := terminal.NewTable(cmd.OutOrStdout())
	table.Line("REASON", "THE DEVICE IS")
	for _, r := range docs.Reasons() {
		for _, n := range r.Names {
			table.Line(n, r.Device)
		}
	}
	return table.Flush()
}

func explain(cmd *cobra.Command, found []docs.Reason) error {
	var parts []string
	for _, r := range found {
		text := fmt.Sprintf("%s: the device is %s\n", strings.Join(r.Names, ", "), r.Device)
		if r.ReadFrom != "" {
			text += "Read from: " + r.ReadFrom + "\n"
		}
		parts = append(parts, text+"\n"+r.Meaning+"\n")
	}
	for _, r := range found {
		for _, s := range r.Sections {
			if part := "--- " + s + "\n"; !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), strings.Join(parts, "\n"))
	return err
}
