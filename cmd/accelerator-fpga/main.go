package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

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
	root.SetArgs(withLongFlags(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	// The error must be a single line, because it is shown in pods' Kubernetes Events. So escape line breaks, which
	// file names and file contents may contain.
	if errors.As(err, new(failure)) {
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), terminal.Escape(err.Error()))
		return 1
	}
	fmt.Fprintf(stderr, "%s: %s (see %[1]s --help)\n", cmd.CommandPath(), terminal.Escape(err.Error()))
	return 2
}

// withLongFlags adds a second dash to flags of Intel's fpga_tool, which start with a single dash: the parser would read
// -dry-run as -d with the value ry-run. It also spells out the value true, so that the parser doesn't mistake the next
// word, which may be the command, for the value.
func withLongFlags(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return args
		case name == "-dry-run", name == "-force":
			args[i] = "-" + name + "=" + cmp.Or(value, "true")
		case arg == "-q":
			args[i] = "--quiet=true"
		}
	}
	return args
}

// failure is an error from a command whose command line was valid.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func asFailure(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}
