package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/inventory"
)

func newCordon() *cobra.Command {
	loader := daemon.NewLoader()
	var by, why string
	var during time.Duration
	var absent bool
	cmd := &cobra.Command{
		Use:   "cordon DEVICE... --why TEXT",
		Short: "Take cards or ports on this node out of service",
		Long: `Take cards or ports out of service immediately. New pods don't get them, but pods that
are already using one keep it. DEVICE is a card with all its ports, such as 3b:00.0 or
0001:3b:00.0, or a single port, 3b:00.0-p0 to 3b:00.0-p3. The address of any function
in an IOMMU group (vfio-pci) cordons the whole group. With --absent, the slot can be
empty. The cordon then applies to the next card that is plugged into it.

A cordon lasts until you run uncordon, or for the time given with --for. It survives
daemon restarts and upgrades. If you cordon a device again, the new values of --why,
--by and --for replace the old ones.
The command connects to the daemon at --socket, which only root can use.`,
		Example: `  accelerator-device-plugin cordon 3b:00.0 --why "replace the fan"
  accelerator-device-plugin cordon 3b:00.0-p1 5e:00.0 --why "link errors, ticket 4711" --for 2h
  kubectl -n kube-system exec POD -- accelerator-device-plugin cordon 3b:00.0 --why "replace the fan" --by alice`,
		Args: deviceArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(why) == "" {
				return errors.New("--why: found none, want the reason for the cordon")
			}
			if during < 0 {
				return fmt.Errorf("--for: found %s, want a duration such as 2h", during)
			}
			socket, err := daemonSocket(cmd, loader)
			if err != nil {
				return err
			}
			daemon := control.Dial(socket)
			if !absent {
				if err := present(cmd, daemon, args); err != nil {
					return asFailure(err)
				}
			}
			made, err := daemon.Cordon(cmd.Context(), args, cmp.Or(by, userName()), why, during)
			if err != nil {
				return asFailure(err)
			}
			return asFailure(printCordons(cmd, daemon, made, ""))
		},
	}
	addSocket(cmd, loader)
	cmd.Flags().StringVar(&why, "why", "", "reason for the cordon, as one line of `TEXT`; required")
	cmd.Flags().DurationVar(&during, "for", 0, "how long the cordon lasts, such as 2h (default: until uncordon)")
	cmd.Flags().BoolVar(&absent, "absent", false, "accept a DEVICE that isn't on this node at the moment")
	addBy(cmd, &by)
	return cmd
}

// present returns an error unless all of the given devices are currently on the node. Without this check, a typo in an
// address would leave the intended card in service.
func present(cmd *cobra.Command, daemon *control.Client, devices []string) error {
	state, err := daemon.State(cmd.Context())
	if err != nil {
		return err
	}
	for _, name := range devices {
		device, err := sysfs.ParseDevice(name)
		if err != nil {
			return err
		}
		var ids []string
		present := slices.DeleteFunc(slices.Clone(state.Devices), func(r view.Row) bool { return r.MissingSince != nil })
		for _, r := range present {
			ids = append(ids, r.ID)
		}
		if !slices.ContainsFunc(present, func(r view.Row) bool {
			return cordon.Find([]cordon.Cordon{{Device: device}}, r.ID, r.Members...) != nil
		}) {
			return fmt.Errorf("DEVICE: found %q, want a device of this node (%s), or --absent to cordon the next card in this slot",
				name, cmp.Or(strings.Join(ids, ", "), "it has none"))
		}
	}
	return nil
}

func newUncordon() *cobra.Command {
	loader := daemon.NewLoader()
	var by string
	cmd := &cobra.Command{
		Use:   "uncordon DEVICE...",
		Short: "Put cards or ports on this node back into service",
		Long: `Put cards or ports back into service by ending their cordons. DEVICE is a card or a
port, the same as for cordon. Healthy devices are advertised again immediately. The
command connects to the daemon at --socket, which only root can use.`,
		Example: `  accelerator-device-plugin uncordon 3b:00.0
  kubectl -n kube-system exec POD -- accelerator-device-plugin uncordon 3b:00.0 --by alice`,
		Args: deviceArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			socket, err := daemonSocket(cmd, loader)
			if err != nil {
				return err
			}
			daemon := control.Dial(socket)
			ended, err := daemon.Uncordon(cmd.Context(), args, cmp.Or(by, userName()))
			if err != nil {
				return asFailure(err)
			}
			return asFailure(printCordons(cmd, daemon, ended, "ended: "))
		},
	}
	addSocket(cmd, loader)
	addBy(cmd, &by)
	return cmd
}

func newForget() *cobra.Command {
	loader := daemon.NewLoader()
	var by string
	cmd := &cobra.Command{
		Use:   "forget CARD",
		Short: "Forget a card that will not come back to this node",
		Long: `Forget a card that was taken out of this node, so that it is no longer reported as
missing, and the next card in its slot doesn't inherit its history. CARD is its PCI
address, such as 3b:00.0. A card that is still present can't be forgotten. The command
connects to the daemon at --socket, which only root can use.`,
		Example: `  accelerator-device-plugin forget 3b:00.0
  kubectl -n kube-system exec POD -- accelerator-device-plugin forget 3b:00.0 --by alice`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			card, err := sysfs.ParseCard(args[0])
			if err != nil {
				return fmt.Errorf("CARD: found %q, %w", args[0], err)
			}
			socket, err := daemonSocket(cmd, loader)
			if err != nil {
				return err
			}
			forgotten, err := control.Dial(socket).Forget(cmd.Context(), card, cmp.Or(by, userName()))
			if err != nil {
				return asFailure(err)
			}
			line := forgotten.Card + " forgotten"
			if !forgotten.Since.IsZero() {
				line += ", which was missing since " + forgotten.Since.Local().Format(time.DateTime)
			}
			return asFailure(printLines(cmd.OutOrStdout(), []string{line}))
		},
	}
	addSocket(cmd, loader)
	addBy(cmd, &by)
	return cmd
}

// deviceArgs checks that there is at least one argument and that every argument is a valid device ID.
func deviceArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("DEVICE: found none, want the PCI address of a card, such as 3b:00.0, or of one port of it, such as 3b:00.0-p1")
	}
	for _, arg := range args {
		if _, err := sysfs.ParseDevice(arg); err != nil {
			return fmt.Errorf("DEVICE: found %q, %w", arg, err)
		}
	}
	return nil
}

// addSocket adds the flags that locate the daemon's local socket.
func addSocket(cmd *cobra.Command, loader *config.Loader) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	loader.AddFlags(all)
	all.VisitAll(func(f *pflag.Flag) {
		if askFlags[f.Name] {
			cmd.Flags().AddFlag(f)
		}
	})
}

func addBy(cmd *cobra.Command, by *string) {
	cmd.Flags().StringVar(by, "by", "", "your `NAME`, which is needed in a pod, where every user is root (default: $SUDO_USER, or else the user's name)")
}

// userName returns the user's name. Under sudo, it returns the name of the user who ran sudo.
func userName() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// printCordons prints each cordon, followed by the devices it applies to.
func printCordons(cmd *cobra.Command, daemon *control.Client, cordons []cordon.Cordon, prefix string) error {
	state, err := daemon.State(cmd.Context())
	if err != nil {
		return err
	}
	var lines []string
	for _, c := range cordons {
		lines = append(lines, prefix+c.String())
		known := false
		for _, r := range state.Devices {
			if cordon.Find([]cordon.Cordon{c}, r.ID, r.Members...) != nil {
				known = true
				is := inService(r)
				if prefix != "" && r.Cordon != nil { // of the port, or of the card
					is = "still out of service (" + r.Cordon.String() + ")"
				}
				lines = append(lines, "  "+r.ID+" is "+is+", "+holdersText(r))
			}
		}
		if !known && prefix == "" {
			lines = append(lines, "  no device has this address now: the cordon applies to the next card in this slot")
		}
	}
	return printLines(cmd.OutOrStdout(), lines)
}

// inService returns "out of service" if a cordon is in effect for the device, and the device's health otherwise.
func inService(r view.Row) string {
	if r.Cordon != nil && r.Health == inventory.Unhealthy.String() {
		return "out of service"
	}
	return strings.TrimSpace(r.Health + " " + strings.Join(r.Reasons, ","))
}

// holdersText describes a device's holders in words.
func holdersText(r view.Row) string {
	switch {
	case len(r.Holder) > 0:
		text := "in use by " + strings.Join(r.Holder, ", ")
		if r.Cordon != nil {
			return "still " + text
		}
		return text
	case !r.HolderKnown:
		return "holder unknown"
	case r.Held != nil && *r.Held:
		return "allocated to a container that the kubelet does not list yet"
	}
	return "free"
}

// printLines prints lines with their control characters escaped.
func printLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, terminal.Escape(line)); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}
