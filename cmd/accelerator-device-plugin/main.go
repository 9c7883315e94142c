package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// Restore the default action, so that a second signal kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(doubleDashes(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	err = oneDash(cmd, err)
	var f failure
	if errors.As(err, &f) {
		if !f.logged {
			fmt.Fprintf(stderr, "accelerator-device-plugin: %s\n", escaped(f))
		}
		return max(f.code, 1)
	}
	if (cmd == root || cmd.Name() == "serve") && !forPeople(args, stderr) && !errors.As(err, new(unknownCommand)) {
		daemon.LogUsage(stderr, err) // programs read the output of serve, one JSON object per line
		return 2
	}
	fmt.Fprintf(stderr, "accelerator-device-plugin: %s\nRun '%s --help' for usage.\n", escaped(err), cmd.CommandPath())
	return 2
}

// escaped returns the error's text with control characters escaped, because file names and the daemon's answers may
// contain them. It keeps line breaks.
func escaped(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = terminal.Escape(line)
	}
	return strings.Join(lines, "\n")
}

// forPeople reports whether the output of serve is meant for people. It looks for --log-format console in args itself,
// because it is called after the command line has turned out to be invalid.
func forPeople(args []string, stderr io.Writer) bool {
	return terminal.Is(stderr) || strings.Contains(" "+strings.ReplaceAll(strings.Join(args, " "), "=", " ")+" ", " --log-format console ")
}

// failure is an error from a command whose command line was valid.
type failure struct {
	error
	logged bool // already logged or printed
	code   int  // exit code; 0 means 1
}

func (f failure) Unwrap() error { return f.error }

// doubleDashes adds a second dash to -log-level and -accel-nbunits, which the original plugin spells with a single
// dash.
func doubleDashes(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		name, _, _ := strings.Cut(a, "=")
		if name == "-log-level" || name == "-accel-nbunits" {
			a = "-" + a
		}
		out[i] = a
	}
	return out
}

// oneDash adds a hint to err if the user typed a known flag with a single dash, as other plugins do. The parser
// interprets each letter after a single dash as a separate flag.
func oneDash(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
	if cmd.Flags().Lookup(name) == nil {
		return err
	}
	return fmt.Errorf("%w; want two dashes: --%s", err, name)
}
