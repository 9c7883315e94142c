package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/programming/fpga"
	"b-com.com/accelerator-device-plugin/programming/hook"
)

func newHook(s *settings) *cobra.Command {
	var flags hook.Flags
	var logFile string
	var always bool
	var hottest fpga.MaxTemperature
	cmd := &cobra.Command{
		Use:   "hook [--device ID]... [--afu ID] [--always]",
		Short: "Program a container's cards before it starts",
		Long: `Program a container's cards. Container runtimes run this command as a createRuntime
hook that is defined in a CDI specification. The command reads the OCI state from
stdin, and the container's config.json. The container specifies its AFUs in pairs of
environment variables, FPGA_REGION_n (an interface ID) and FPGA_AFU_n (an AFU ID, or
the hash of an AOCX). For each pair, the command programs one of the container's cards
with that AFU. If the command fails, the container doesn't start.

The container's cards are the ones given with --device in this hook's entries in
config.json. If none of the entries has --device, they are the ports in linux.devices.
With --device, an invocation programs only the cards in its own --device flags.
Without --device, it programs all of the container's cards.

With --afu, all cards given with --device get that AFU, and the environment is ignored.

A card that already reports the AFU isn't programmed again. However, a bitstream can
report any ID. If pods can load their own bitstreams, use --always, so that cards are
programmed every time a container starts. A card that is too hot (--max-temperature)
isn't programmed, and the container doesn't start.

The command logs its result to syslog or the journal (as accelerator-fpga), or to a
file if there is neither.`,
		Example: `  accelerator-fpga hook --device 3b:00.0 < state.json
  accelerator-fpga hook --device 3b:00.0 --afu d8424dc4a4a3c413f89e433683f9040b < state.json
  journalctl -t accelerator-fpga -o cat | accelerator-device-plugin logs --device 3b:00.0`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("afu") && (flags.AFU == "" || len(flags.Devices) == 0) {
				return fmt.Errorf("--afu: found %q with %d --device, want an id and at least one card", flags.AFU, len(flags.Devices))
			}
			// os.Executable resolves links, and strips the "(deleted)" that the kernel appends if an upgrade has
			// replaced the file.
			self, err := os.Executable()
			if err != nil {
				return asFailure(err)
			}
			parent := os.Getppid()
			host, err := s.host()
			if err != nil {
				return asFailure(err)
			}
			// Give up before the runtime kills the hook after 110 s, because the runtime's error wouldn't say what took
			// so long.
			s.timeout = min(s.timeout, 100*time.Second)
			ctx, cancel := s.deadline(cmd.Context())
			defer cancel()
			store := programming.Store(s.store)
			h := hook.Hook{
				Flags: flags, Self: self, Parse: parseHook, Always: always, Host: host, Store: store,
				Program: fpga.Programmer{Host: host, LockDir: s.lockDir, Store: store, Always: always, Max: hottest, Begin: func() error {
					// Check whether the runtime has been killed. In that case, the hook keeps running, but by the time
					// it gets the lock, the card may belong to another pod.
					if os.Getppid() != parent {
						return errors.New("the container runtime has exited in the meantime: nothing was programmed")
					}
					return nil
				}}.Program,
				Log: hook.NewLog(filepath.Join(s.dev, "log"), logFile),
			}
			return asFailure(h.Run(ctx, cmd.InOrStdin()))
		},
	}
	cmd.Flags().StringArrayVar(&flags.Devices, "device", nil, "`card` to program, given as its ID or as the name of its FME or port; repeatable")
	cmd.Flags().StringVar(&flags.AFU, "afu", "", "`id` of the AFU, or hash of the AOCX, for all cards given with --device")
	cmd.Flags().BoolVar(&always, "always", false, "program a card even if it already reports the AFU")
	addMaxTemperature(cmd, &hottest)
	cmd.Flags().StringVar(&logFile, "log-file", "/var/log/accelerator-fpga.log", "log `file` to use if there is no syslog; it is rotated at 1 MiB, and one old file is kept")
	return cmd
}

// parseHook parses the arguments of a config.json entry the same way main does. For commands other than hook, it
// returns empty flags.
func parseHook(args []string) (hook.Flags, error) {
	var flags hook.Flags
	cmd, rest, err := newRoot().Find(withLongFlags(args[min(1, len(args)):]))
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil || cmd.Name() != "hook" {
		return flags, err
	}
	if flags.Devices, err = cmd.Flags().GetStringArray("device"); err == nil {
		flags.AFU, err = cmd.Flags().GetString("afu")
	}
	return flags, err
}
