package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/release"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/programming/fpga"
)

// version is set at build time by the Makefile.
var version = ""

const rootHelp = `Manage the bitstreams of this node, show its FPGA cards (drivers dfl-pci and
intel-fpga-pci), and program them.

--device selects a card by its PCI address, its FME or one of its ports, as shown by
list-fme and list-port: 3b:00.0, 3b:00.0-p1, dfl-fme.0, /dev/dfl-port.0. The commands
that show cards only read sysfs and don't open any devices, so they don't disturb
programs that are using a card.

Flags can come before or after FILE. -o json prints JSON.

Exit codes: 0 success, 1 failure, 2 usage error.`

const rootExamples = `  accelerator-fpga info nlb_400.gbs
  accelerator-fpga install nlb_400.gbs
  accelerator-fpga pull registry.example.com/fpga/nlb:1.0
  accelerator-fpga list
  accelerator-fpga list-port
  accelerator-fpga pr --device 3b:00.0 nlb_400.gbs`

// settings holds the global flags.
type settings struct {
	store   string
	output  string
	sysfs   string
	dev     string
	lockDir string
	timeout time.Duration
}

func (s *settings) json() bool { return s.output == "json" }

// host returns the node selected by --sysfs-root and --dev-root.
func (s *settings) host() (fpga.Host, error) {
	isSysfs, err := sysfs.IsSysfs(s.sysfs)
	return fpga.Host{Sys: s.sysfs, Dev: s.dev, Simulated: !isSysfs}, err
}

func newRoot() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:               "accelerator-fpga",
		Short:             "Manage bitstreams and program FPGA cards",
		Long:              rootHelp,
		Example:           rootExamples,
		Args:              noUnknownCommand,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if s.output != "" && s.output != "json" {
				return fmt.Errorf("--output: found %q, want json", s.output)
			}
			for flag, value := range map[string]string{"store": s.store, "sysfs-root": s.sysfs, "dev-root": s.dev, "lock-dir": s.lockDir} {
				if value == "" {
					return fmt.Errorf(`--%s: found "", want a directory`, flag)
				}
			}
			if s.timeout <= 0 {
				return fmt.Errorf("--timeout: found %s, want more than 0s", s.timeout)
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return errors.New("command: found none") },
	}
	root.SuggestionsMinimumDistance = 2
	flags := root.PersistentFlags()
	flags.StringVar(&s.store, "store", string(programming.DefaultStore), "`directory` with this node's bitstreams")
	flags.StringVar(&s.sysfs, "sysfs-root", "/sys", "`directory` where sysfs is mounted")
	flags.StringVar(&s.dev, "dev-root", "/dev", "`directory` with the device nodes")
	flags.StringVar(&s.lockDir, "lock-dir", "/run/accelerator-fpga", "`directory` for the lock files (one for each FME)")
	flags.DurationVar(&s.timeout, "timeout", 90*time.Second, "time `limit` for programming, releasing or assigning")
	flags.StringVarP(&s.output, "output", "o", "", "output `format`: json (default: text)")
	root.AddCommand(newInfo(&s), newInstall(&s), newList(&s))
	root.AddCommand(newRegistry("pull", "REFERENCE", "Pull a bitstream from a registry into the store"), newRegistry("push", "FILE REFERENCE", "Push a bitstream to a registry"),
		newRegistry("keep", "--list FILE", "Run a service that keeps bitstreams in the store up to date"))
	root.AddCommand(newListFME(&s), newListPort(&s), newFPGAInfo(&s), newFMEInfo(&s), newPortInfo(&s))
	root.AddCommand(newProgram(&s), newRelease(&s), newAssign(&s), newHook(&s), newVersion())
	root.AddCommand(newInstallBinary()) // hidden; used by the chart
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

func noArgument(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("argument: found %q, want none", args[0])
	}
	return nil
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  accelerator-fpga version",
		Args:    noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), release.Line("accelerator-fpga", buildVersion()))
			return asFailure(err)
		},
	}
}

func buildVersion() string { return release.Version(version) }
