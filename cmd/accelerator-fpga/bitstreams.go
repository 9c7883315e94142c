package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/programming"
)

// file is the bitstream file that a command works on.
type file struct{ path string }

// addTo adds the FILE argument to a command, and -b FILE for compatibility with Intel's tool.
func (f *file) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "bitstream", "b", "", "`FILE`, for compatibility with Intel's fpga_tool")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if f.path != "" {
			args = append(args, f.path)
		}
		if len(args) != 1 {
			return fmt.Errorf("FILE: found %d, want one", len(args))
		}
		f.path = args[0]
		return nil
	}
}

func newInfo(s *settings) *cobra.Command {
	var f file
	cmd := &cobra.Command{
		Use:   "info FILE",
		Short: "Show a bitstream's IDs and size",
		Long: `Show a bitstream's format (.gbs or .aocx), the interface that it fits, its AFU and its
size. The command checks the whole file. It doesn't need a card or root.`,
		Example: `  accelerator-fpga info nlb_400.gbs
  accelerator-fpga info -o json nlb_400.gbs | jq -r .interfaceId`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := programming.Open(f.path)
			if err != nil {
				return asFailure(err)
			}
			defer b.Close()
			if err := b.Check(cmd.Context()); err != nil {
				return asFailure(err)
			}
			if s.json() {
				return asFailure(terminal.WriteJSON(cmd.OutOrStdout(), rowOf(b)))
			}
			return asFailure(printInfo(cmd.OutOrStdout(), b))
		},
	}
	f.addTo(cmd)
	return cmd
}

func newInstall(s *settings) *cobra.Command {
	var f file
	var o programming.InstallOptions
	var quiet bool
	cmd := &cobra.Command{
		Use:   "install FILE",
		Short: "Install a bitstream in the store",
		Long: `Copy a bitstream to STORE/INTERFACE/AFU.gbs or STORE/INTERFACE/HASH.aocx, where
INTERFACE, AFU and HASH are the IDs in the file. Missing directories are created. The
store and its files must belong to the effective user and must not be writable by other
users, because anyone who can write to them can choose the bitstreams that root programs.`,
		Example: `  accelerator-fpga install nlb_400.gbs
  accelerator-fpga install --dry-run nlb_400.gbs        check everything, print the path
  accelerator-fpga install --force nlb_400.gbs          replace an existing file`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := programming.Open(f.path)
			if err != nil {
				return asFailure(err)
			}
			defer b.Close()
			path, err := programming.Store(s.store).Install(cmd.Context(), b, o)
			if err != nil {
				return asFailure(err)
			}
			return asFailure(printInstalled(stdout(cmd, quiet), b, path, s.json(), !o.DryRun))
		},
	}
	f.addTo(cmd)
	addQuiet(cmd, &quiet)
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace an existing file")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "check everything without changing anything")
	return cmd
}

func newList(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the bitstreams in the store",
		Long: `List the bitstreams in the store. Each file is checked the same way as before
programming. Files that would be rejected are listed with the reason.`,
		Example: `  accelerator-fpga list
  accelerator-fpga list -o json | jq -r '.[] | select(.error) | .path'`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries, err := programming.Store(s.store).List(cmd.Context())
			if err != nil {
				return asFailure(err)
			}
			if s.json() {
				return asFailure(terminal.WriteJSON(cmd.OutOrStdout(), rowsOf(entries)))
			}
			return asFailure(printList(cmd.OutOrStdout(), s.store, entries))
		},
	}
}
