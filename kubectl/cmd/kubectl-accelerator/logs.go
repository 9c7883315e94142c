package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/internal/timeline"
	"b-com.com/accelerator-device-plugin/kubectl/fleet"
)

func newLogs(c *cluster) *cobra.Command {
	o := timeline.Options{}
	var since, until string
	cmd := &cobra.Command{
		Use:   "logs NODE",
		Short: "Print the history of a node's devices from the plugin's logs",
		Long: `Print the history of a node's devices in plain words, one line for each event. The
command reads the logs of the plugin's pods on the node, including logs from before the
last restart of a container. The cluster doesn't keep the logs of pods that no longer
exist. See docs/logs.md for how to keep them, and use flaps to print what the node
remembers.

--since and --until accept a time of day in the log's time zone (03:12, the most recent
one), a date and time (2026-11-21T03:12), a time with a zone (2026-11-21T03:12:00Z), or
a duration before now (90m).`,
		Example: `  kubectl accelerator logs worker-3
  kubectl accelerator logs worker-3 --device 3b:00.0 --since 03:00 --until 03:30
  kubectl accelerator logs worker-3 --summary`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.nodes(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []struct {
				name, text string
				bound      *timeline.Bound
			}{{"since", since, &o.Since}, {"until", until, &o.Until}} {
				if flag.text == "" {
					continue
				}
				var err error
				if *flag.bound, err = timeline.ParseBound(flag.text, time.Now()); err != nil {
					return fmt.Errorf("--%s: %w", flag.name, err)
				}
			}
			o.Colour = terminal.Is(cmd.OutOrStdout()) && os.Getenv("NO_COLOR") == ""
			reader, err := timeline.New(o, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if err := checkNode(args[0]); err != nil {
				return err
			}
			f, err := c.fleet(cmd)
			if err != nil {
				return err
			}
			return asFailure(logs(cmd, f, args[0], reader))
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.Devices, "device", nil, "show only lines about this device or card, given as an `ID` or PCI address; repeatable (-p0 selects only the first port)")
	flags.StringArrayVar(&o.Events, "event", nil, "show only these events, given as a `NAME` or a pattern such as device.*; repeatable")
	flags.StringVar(&since, "since", "", "show only lines since this `TIME`")
	flags.StringVar(&until, "until", "", "show only lines before this `TIME`")
	flags.BoolVar(&o.All, "all", false, "don't combine the lines that belong to one pull")
	flags.BoolVar(&o.Summary, "summary", false, "print a summary of each device instead of lines")
	return cmd
}

// logs prints the logs of a node's pods, oldest pod first. It isn't an error if the log from before a container's last
// restart no longer exists.
func logs(cmd *cobra.Command, f *fleet.Fleet, node string, reader *timeline.Reader) error {
	note := func(text string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", program, terminal.Escape(text))
	}
	all, err := f.Logs(cmd.Context(), node)
	if err != nil {
		return err
	}
	var failed error
	for _, log := range all {
		if all[0].Pod != all[len(all)-1].Pod { // so that devices in different pods are kept apart
			reader.Origin = log.Pod
		}
		if err := readLog(cmd.Context(), f, log, reader); err != nil && log.Previous {
			note("before the last restart: " + err.Error())
		} else if err != nil {
			note(err.Error())
			failed = fmt.Errorf("not all logs of %s could be read", node)
		}
	}
	if err := reader.Close(); err != nil {
		return err
	}
	for _, text := range reader.Notes() {
		note(text)
	}
	if failed == nil && (reader.HasUnknownDevice() || reader.Empty()) {
		return errPrinted
	}
	return failed
}

func readLog(ctx context.Context, f *fleet.Fleet, log fleet.Log, reader *timeline.Reader) error {
	in, err := f.Open(ctx, log)
	if err != nil {
		return err
	}
	defer in.Close()
	return reader.Read(ctx, log.Pod, in)
}
