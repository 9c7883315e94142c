package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/internal/timeline"
)

const logsHelp = `Print the devices' history from the daemon's logs, one line for each event, including
the lists that the kubelet received and their latency. The command reads the files one
after the other, or stdin (-). Text before the JSON in a line is skipped. If that text
was added by kubectl logs --prefix or journalctl, the line is shown with its pod or
host, and devices from different pods or hosts are kept apart. At the end, the command
prints to stderr how many lines it skipped, and which devices the latest daemon did not
find. If the logs contain no lines from the daemon, the exit code is 1.

Without --event and --level, the command prints all lines at level info and above,
except info lines for http.served, socket.removed and library.log. "!" marks warnings
and errors. When a card is pulled, all of a device's lines within half a second are
combined into one, which lists the intermediate reasons. Use --all to print each line.

--since and --until accept a time of day in the log's time zone (03:12, the most recent
one), a date and time (2026-11-21T03:12), a time with a zone (2026-11-21T03:12:00Z), or
a duration before now (90m).

--summary prints one row for each device:
  LAST, SINCE     the device's last health, or "gone", and when it changed to this
  FLAPS           changes from healthy or degraded to unhealthy, or back
  REMOVED         how often the device was removed
  REMOVED IN USE  how often the device was removed while a container was using it
  EVENTS          lines about the device
  HOLDER          containers that are using the device
  LAST HOLDER     containers that used the device before
Only lines between --since and --until are counted, but LAST, SINCE and the containers
also take earlier lines into account. Use --device to select rows.`

const logsExamples = `  kubectl -n kube-system logs ds/fpga-accelerator-device-plugin | accelerator-device-plugin logs
  kubectl -n kube-system logs -f POD | accelerator-device-plugin logs --device 3b:00.0
  journalctl -u accelerator-device-plugin | accelerator-device-plugin logs --since 03:00 --until 03:30
  zcat -f 0.log.20261121-031502.gz 0.log | accelerator-device-plugin logs --summary
  accelerator-device-plugin logs --event 'device.*' -o json daemon.log | jq -r '[.time, .device, .event] | @tsv'`

func newLogs() *cobra.Command {
	o := timeline.Options{}
	var level, format, since, until string
	cmd := &cobra.Command{
		Use:     "logs [FILE ... | -]",
		Short:   "Print the devices' history from the daemon's log",
		Long:    logsHelp,
		Example: logsExamples,
		RunE: func(cmd *cobra.Command, files []string) error {
			var err error
			if o.JSON, err = parseJSON(format); err == nil {
				o.Level, err = parseLevel(level)
			}
			if err == nil {
				err = parseBounds(&o.Filter, since, until)
			}
			if err != nil {
				return err
			}
			if len(files) == 0 {
				if terminal.Is(os.Stdin) { // also true for the null device, which is stdin under cron
					return errors.New("stdin: found no log, want FILE arguments, - for stdin, or a log on stdin")
				}
				files = []string{"-"}
			}
			o.Colour = terminal.Is(cmd.OutOrStdout()) && os.Getenv("NO_COLOR") == ""
			reader, err := timeline.New(o, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return asFailure(logs(cmd, reader, files))
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.Devices, "device", nil,
		"show only lines about this device or card, given as an `ID` or PCI address; repeatable (-p0 selects only the first port)")
	flags.StringArrayVar(&o.Events, "event", nil, "show only these events, given as a `NAME` or a pattern such as device.*; repeatable")
	flags.StringVar(&level, "level", "", "show events at this `LEVEL` and above: debug, info, warn or error")
	flags.StringVar(&since, "since", "", "show only lines since this `TIME`")
	flags.StringVar(&until, "until", "", "show only lines before this `TIME`")
	flags.BoolVar(&o.All, "all", false, "don't combine the lines that belong to one pull")
	flags.BoolVar(&o.Summary, "summary", false, "print a summary instead of lines")
	flags.StringVarP(&format, "output", "o", "", "output `format`: json (the original lines, without prefixes; default: text)")
	return cmd
}

// parseJSON reports whether the --output value is json. Values other than json and "" are errors.
func parseJSON(format string) (bool, error) {
	if format != "" && format != "json" {
		return false, fmt.Errorf("--output: found %q, want json", format)
	}
	return format == "json", nil
}

func parseLevel(name string) (*zapcore.Level, error) {
	if name == "" {
		return nil, nil
	}
	level, err := zapcore.ParseLevel(name)
	if err != nil || level > zapcore.ErrorLevel {
		return nil, fmt.Errorf("--level: found %q, want one of debug, info, warn, error", name)
	}
	return &level, nil
}

func parseBounds(f *timeline.Filter, since, until string) (err error) {
	now := time.Now()
	if since != "" {
		if f.Since, err = timeline.ParseBound(since, now); err != nil {
			return fmt.Errorf("--since: %w", err)
		}
	}
	if until != "" {
		if f.Until, err = timeline.ParseBound(until, now); err != nil {
			return fmt.Errorf("--until: %w", err)
		}
	}
	return nil
}

// logs reads the files in turn. If the output is a pipe whose reader closes it, as head does, logs returns nil.
func logs(cmd *cobra.Command, reader *timeline.Reader, files []string) error {
	signal.Ignore(syscall.SIGPIPE)
	var err error
	for _, name := range files {
		if err = readLog(cmd.Context(), reader, name); err != nil {
			break
		}
	}
	if err == nil {
		err = reader.Close()
	}
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, note := range reader.Notes() {
		fmt.Fprintf(cmd.ErrOrStderr(), "accelerator-device-plugin: %s\n", note)
	}
	if reader.Empty() {
		return failure{error: errors.New("no line of the daemon"), logged: true} // a note has already said so
	}
	return nil
}

func readLog(ctx context.Context, reader *timeline.Reader, name string) error {
	if name == "-" {
		return reader.Read(ctx, "stdin", os.Stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return reader.Read(ctx, name, file)
}
