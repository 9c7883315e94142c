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

const logsHelp = `Print the history of the devices from logs of the daemon, one line for each event,
including the lists that the kubelet received and their latency. The command reads
the files in turn, or stdin (-). Text before the JSON of a line is skipped. If that
text was added by kubectl logs --prefix or journalctl, the line is shown with its pod
or host, and devices of different pods or hosts are kept apart. At the end, the
command prints on stderr how many lines it skipped, and which devices the newest
daemon did not find. If there is no line of the daemon, the exit code is 1.

Without --event and --level the command prints all lines of level info and above,
except the info lines of http.served, socket.removed and library.log. "!" marks
warnings and errors. When a card is pulled, the lines of a device within half a
second are combined into one, which lists the reasons in between; --all prints each
line.

--since and --until take a time of day in the zone of the log (03:12, the last one
before now), a date and a time (2026-11-21T03:12), a time with a zone
(2026-11-21T03:12:00Z), or a duration before now (90m).

--summary prints one row for each device:
  LAST, SINCE   its last health, or "gone", and the time of that change
  FLAPS         changes from healthy or degraded to unhealthy, or back
  REMOVED       removals; REMOVED IN USE: those while a container used the device
  EVENTS        lines about the device
  HOLDER        containers that use it; LAST HOLDER: those that used it before
Only lines from --since to --until are counted, but LAST, SINCE and the containers
also use earlier lines. --device selects rows.`

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
		Short:   "Print the history of the devices from the daemon's log",
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
				if terminal.Is(os.Stdin) { // or the null device, as when run by cron
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
		"only lines about this device or card: its `ID` or PCI address; repeatable (-p0 selects the first port alone)")
	flags.StringArrayVar(&o.Events, "event", nil, "only these events: a `NAME`, or a pattern such as device.*; repeatable")
	flags.StringVar(&level, "level", "", "all events of this `LEVEL` and more severe ones: debug, info, warn, error")
	flags.StringVar(&since, "since", "", "only lines from this `TIME` on")
	flags.StringVar(&until, "until", "", "only lines before this `TIME`")
	flags.BoolVar(&o.All, "all", false, "do not combine the lines of a pull")
	flags.BoolVar(&o.Summary, "summary", false, "print a summary instead of lines")
	flags.StringVarP(&format, "output", "o", "", "output `format`: json, the lines as they were written, without prefixes (default: text)")
	return cmd
}

// parseJSON reports whether the --output value is json. Any value other than json and "" is an error.
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

// logs reads the files one after another. If the output is a pipe that its reader has closed, as head does, logs
// returns without an error.
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
		return failure{error: errors.New("no line of the daemon"), logged: true} // a note says so
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
