package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/programming"
)

// version is set by the Makefile.
var version = ""

const rootHelp = `Keeps the bitstreams of this node: shows what is in a file, puts it into the store
under the ids of its interface and its AFU, and lists the store.

Flags stand before or after FILE. With -o json the output is for programs.

Exit codes: 0 fine, 1 failure, 2 usage.`

const rootExamples = `  accelerator-fpga info nlb_400.gbs
  accelerator-fpga install nlb_400.gbs
  accelerator-fpga list`

// settings are the flags that commands share.
type settings struct {
	store   string
	output  string
	sysfs   string
	dev     string
	lockDir string
	timeout time.Duration
}

func (s *settings) json() bool { return s.output == "json" }

func newRoot() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:               "accelerator-fpga",
		Short:             "Bitstreams for FPGA cards",
		Long:              rootHelp,
		Example:           rootExamples,
		Args:              noUnknownCommand,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if s.output != "" && s.output != "json" {
				return fmt.Errorf("-o %q, want json", s.output)
			}
			if s.store == "" {
				return errors.New(`--store "", want a directory`)
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return errors.New("no command, want one") },
	}
	root.SuggestionsMinimumDistance = 2
	flags := root.PersistentFlags()
	flags.StringVar(&s.store, "store", "/srv/intel.com/fpga", "`directory` with the bitstreams of this node")
	flags.StringVar(&s.sysfs, "sysfs-root", "/sys", "`directory` of sysfs")
	flags.StringVar(&s.dev, "dev-root", "/dev", "`directory` of the device nodes")
	flags.StringVar(&s.lockDir, "lock-dir", "/run/accelerator-fpga", "`directory` with a lock for each FME")
	flags.DurationVar(&s.timeout, "timeout", 90*time.Second, "`time` after which programming is given up")
	flags.StringVarP(&s.output, "output", "o", "", "`json` (default: text)")
	root.AddCommand(newInfo(&s), newInstall(&s), newList(&s), newHook(&s), newVersion())
	root.AddCommand(newInstallBinary()) // of the chart, hidden
	return root
}

func noUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		return fmt.Errorf("unknown command %q, did you mean %s?", args[0], strings.Join(similar, " or "))
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d files, want one", len(args))
	}
	return nil
}

func noArgument(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("argument %q, want none", args[0])
	}
	return nil
}

func newInfo(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "info FILE",
		Short: "Show what is in a bitstream",
		Long: `Shows the format of a bitstream (.gbs or .aocx), the interface that it fits, its AFU
and its size. It checks the whole file, and needs neither card nor root.`,
		Example: `  accelerator-fpga info nlb_400.gbs
  accelerator-fpga info -o json nlb_400.gbs | jq -r .interfaceId`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := programming.Open(args[0])
			if err != nil {
				return asFailure(err)
			}
			defer b.Close()
			if err := b.Check(cmd.Context()); err != nil {
				return asFailure(err)
			}
			if s.json() {
				return asFailure(printJSON(cmd.OutOrStdout(), rowOf(b)))
			}
			return asFailure(printInfo(cmd.OutOrStdout(), b))
		},
	}
}

func newInstall(s *settings) *cobra.Command {
	var o programming.InstallOptions
	cmd := &cobra.Command{
		Use:   "install FILE",
		Short: "Put a bitstream into the store",
		Long: `Copies a bitstream to STORE/INTERFACE/AFU.gbs or STORE/INTERFACE/HASH.aocx, where
INTERFACE, AFU and HASH are the ids in the file. Missing directories are made. The
store and its files must belong to the user who calls this, and nobody else may be
able to write to them: whoever can, decides what is programmed.`,
		Example: `  accelerator-fpga install nlb_400.gbs
  accelerator-fpga install --dry-run nlb_400.gbs        only say where it would be put
  accelerator-fpga install --force nlb_400.gbs          replace the one that is there`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := programming.Open(args[0])
			if err != nil {
				return asFailure(err)
			}
			defer b.Close()
			path, err := programming.Store(s.store).Install(cmd.Context(), b, o)
			if err != nil {
				return asFailure(err)
			}
			return asFailure(printInstalled(cmd.OutOrStdout(), b, path, s.json(), !o.DryRun))
		},
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace the file that is there")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "check everything and change nothing")
	return cmd
}

func newList(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the bitstreams in the store",
		Long: `Lists the bitstreams in the store. Each file is checked as it is before a card is
programmed with it; one that would be refused is listed with the reason.`,
		Example: `  accelerator-fpga list
  accelerator-fpga list -o json | jq -r '.[] | select(.error) | .path'`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries, err := programming.Store(s.store).List(cmd.Context())
			if err != nil {
				return asFailure(err)
			}
			if s.json() {
				return asFailure(printJSON(cmd.OutOrStdout(), rowsOf(entries)))
			}
			return asFailure(printList(cmd.OutOrStdout(), s.store, entries))
		},
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  accelerator-fpga version",
		Args:    noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "accelerator-fpga %s %s %s/%s\n",
				buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return asFailure(err)
		},
	}
}

// buildVersion returns the version that the Makefile has set, or that of go install.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
