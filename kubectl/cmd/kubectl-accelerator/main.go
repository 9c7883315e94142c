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

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"b-com.com/accelerator-device-plugin/internal/release"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// version is set at build time by the Makefile.
var version = ""

const program = "kubectl accelerator"

func main() {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) { // under nohup, SIGHUP is ignored
		signals = append(signals, syscall.SIGHUP) // sent when the terminal is closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// After the first signal, restore the default action, so that a second one kills the process.
	context.AfterFunc(ctx, stop)
	klog.SetLogger(logr.Discard()) // the output already says what the client would log
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var f failure
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errPrinted):
		return 1
	case errors.As(err, &f):
		fmt.Fprintf(stderr, "%s: %s\n", program, terminal.Escape(f.Error()))
		return 1
	}
	fmt.Fprintf(stderr, "%s: %s\nRun '%s --help' for usage.\n", program, terminal.Escape(suggested.Replace(err.Error())), cmd.CommandPath())
	return 2
}

// suggested turns the error for an unknown command into a single line.
var suggested = strings.NewReplacer("\n\nDid you mean this?\n\t", ", did you mean ", "\n\t", " or ", "\n", "")

// failure is an error from a command whose arguments were valid.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func asFailure(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

const rootHelp = `Show the FPGA cards of all nodes, and take them out of service.

The commands query each node's device plugin or DRA driver by running
accelerator-device-plugin in its pod with your permissions, the same way kubectl exec
does. Only can-pull starts its own pod, and removes it afterwards. Without -n, the
commands look for the plugin's pods in all namespaces.

Exit codes: 0 success, 1 failure or a node that did not answer, 2 usage error.`

const rootExamples = `  kubectl accelerator devices                            list the devices of all nodes, their health and who uses them
  kubectl accelerator devices --unhealthy                list only the ones that need attention
  kubectl accelerator flaps --since 7d                   list the cards that failed most often
  kubectl accelerator explain port-ap6                   explain what a reason means, and what to do
  kubectl accelerator cordon worker-3 3b:00.0 --why fan  take a card out of service, so that new pods don't get it
  kubectl accelerator uncordon worker-3 3b:00.0          put the card back into service
  kubectl accelerator can-pull worker-3 3b:00.0          check whether it is safe to pull the card, and if not, why
  kubectl accelerator logs worker-3 --device 3b:00.0     print the history of a card
  kubectl accelerator report worker-3                    write a file for the people who help you find a fault
  kubectl accelerator ui                                 show all cards on one page in your browser`

func newRoot() *cobra.Command {
	c := newCluster()
	root := &cobra.Command{
		Use:           "kubectl-accelerator",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: program},
		Short:         "Show and manage the FPGA cards of all nodes",
		Long:          rootHelp,
		Example:       rootExamples,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newDevices(c), newFlaps(c), newExplain(), newCordon(c), newUncordon(c), newCanPull(c), newForget(c), newLogs(c), newReport(c), newUI(c), newVersion())
	c.addFlags(root.PersistentFlags())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this command",
		Example: "  kubectl accelerator version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), release.Line("kubectl-accelerator", buildVersion()))
			return asFailure(err)
		},
	}
}

func buildVersion() string { return release.Version(version) }
