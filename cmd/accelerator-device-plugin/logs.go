package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/internal/timeline"
)

const logsHelp = `Reads the log of the daemon from files, or from stdin (-), and prints what became
of the devices: a line for each event, with what the kubelet was told and how soon.

The log may come from kubectl logs (also with --prefix and --timestamps), stern,
journalctl, docker or /var/log/containers, compressed by gzip, mixed with lines
of others. Several files are read one after the other. Lines that kubectl logs
--prefix, stern or journalctl mark with a pod or host are shown with it, and their
devices are told apart. Lines that were passed over are counted at the end on stderr,
and devices named that went while no daemon watched.

Without --event and --level it prints what concerns devices, and all trouble. The
lines of a device while its card is pulled or plugged in, within half a second, are
one line then, which names the reasons that were seen on the way; --all prints each.
"!" marks warnings and errors. --since and --until take a time of day as the lines
show it (03:12, the last that was), with a date (2026-11-21T03:12), with a zone
(2026-11-21T03:12:00Z), or a duration before now (90m).

--summary prints, for each device, how it was last and since when, how often it
turned between healthy or degraded and unhealthy, how often it was removed and how
often a container held it then, and how long it took at worst until the daemon had
noticed and the kubelet was told; and counts for each resource. It counts lines from
--since to --until; how a device is comes from the lines before as well. --device and
--resource choose rows.`

const logsExamples = `  kubectl -n kube-system logs ds/fpga-accelerator-device-plugin | accelerator-device-plugin logs
  kubectl -n kube-system logs -f POD | accelerator-device-plugin logs --device 3b:00.0
  journalctl -u accelerator-device-plugin | accelerator-device-plugin logs --since 03:00 --until 03:30
  accelerator-device-plugin logs --summary 0.log.20261121-031502.gz 0.log
  accelerator-device-plugin logs --event 'device.*' -o json daemon.log | jq -r '[.time, .device, .event] | @tsv'`

func newLogs() *cobra.Command {
	o := timeline.Options{}
	var level, format, since, until string
	cmd := &cobra.Command{
		Use:     "logs [FILE ... | -]",
		Short:   "Tell from the daemon's log what became of the devices",
		Long:    logsHelp,
		Example: logsExamples,
		RunE: func(cmd *cobra.Command, files []string) error {
			var err error
			if o.JSON, err = wantsJSON(format); err == nil {
				o.Level, err = parseLevel(level)
			}
			if err == nil {
				err = parseBounds(&o.Filter, since, until)
			}
			if err != nil {
				return err
			}
			if len(files) == 0 {
				if err := wantsLog(os.Stdin); err != nil {
					return err
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
		"only what concerns this device, or this card: its `ID` or address (repeatable; -p0: the first port alone)")
	flags.StringArrayVar(&o.Events, "event", nil, "only these events: a `NAME`, or a pattern like device.* (repeatable)")
	flags.StringVar(&o.Resource, "resource", "", "only what concerns the resource of this `NAME`, and its devices")
	flags.StringVar(&level, "level", "", "all events of this `LEVEL` or a graver one: debug, info, warn, error")
	flags.StringVar(&since, "since", "", "only from this `TIME` on")
	flags.StringVar(&until, "until", "", "only before this `TIME`")
	flags.BoolVar(&o.All, "all", false, "print each line, also those of one pull or plug")
	flags.BoolVar(&o.Summary, "summary", false, "print a summary instead of lines")
	flags.StringVarP(&format, "output", "o", "", "`json`: lines as they were written, without prefixes (default: text)")
	return cmd
}

// wantsLog returns an error if stdin is a terminal or, as under cron, the null device.
func wantsLog(stdin *os.File) error {
	if !terminal.Is(stdin) {
		return nil
	}
	in, err := stdin.Stat()
	if null, e := os.Stat(os.DevNull); err == nil && e == nil && os.SameFile(in, null) {
		return errors.New("nothing on stdin: want files, or a log on stdin")
	}
	return errors.New("want files, - for stdin, or a log on stdin")
}

func wantsJSON(format string) (bool, error) {
	if format != "" && format != "json" {
		return false, fmt.Errorf("-o %q: want json", format)
	}
	return format == "json", nil
}

func parseLevel(name string) (*zapcore.Level, error) {
	if name == "" {
		return nil, nil
	}
	level, err := zapcore.ParseLevel(name)
	if err != nil || level > zapcore.ErrorLevel {
		return nil, fmt.Errorf("--level %q: want one of debug, info, warn, error", name)
	}
	return &level, nil
}

func parseBounds(f *timeline.Filter, since, until string) (err error) {
	now := time.Now()
	if since != "" {
		if f.Since, err = timeline.ParseBound(since, now); err != nil {
			return fmt.Errorf("--since %w", err)
		}
	}
	if until != "" {
		if f.Until, err = timeline.ParseBound(until, now); err != nil {
			return fmt.Errorf("--until %w", err)
		}
	}
	return nil
}

// logs reads the files in turn, as far as they can be read. It returns no error if the reader
// of the output has closed its end, as head does.
func logs(cmd *cobra.Command, reader *timeline.Reader, files []string) error {
	signal.Ignore(syscall.SIGPIPE)
	var failed error
	for _, name := range files {
		if cmd.Context().Err() != nil {
			break
		}
		err := readLog(cmd.Context(), reader, name)
		if errors.As(err, new(timeline.OutputError)) {
			failed = err
			break
		}
		if cmd.Context().Err() == nil { // interrupted in the middle is no error of the file
			failed = errors.Join(failed, err)
		}
	}
	if !errors.As(failed, new(timeline.OutputError)) {
		failed = errors.Join(failed, reader.Close())
	}
	if errors.Is(failed, syscall.EPIPE) {
		return nil
	}
	for _, note := range reader.Notes() {
		fmt.Fprintf(cmd.ErrOrStderr(), "accelerator-device-plugin: %s\n", note)
	}
	return failed
}

func readLog(ctx context.Context, reader *timeline.Reader, name string) error {
	in, from := os.Stdin, "stdin"
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		in, from = file, name
	}
	// At the end of ctx the lines that were read are still printed. A read of a terminal or a
	// pipe cannot be interrupted: it is left behind, because the process ends next.
	out, to := io.Pipe()
	defer out.Close()
	go func() {
		_, err := io.Copy(to, in)
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err // the reader names the file
		}
		to.CloseWithError(err)
	}()
	defer context.AfterFunc(ctx, func() { to.Close() })()
	return reader.Read(from, out)
}
