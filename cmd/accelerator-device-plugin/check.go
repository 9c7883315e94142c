package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Exit codes of check, as node-problem-detector expects them from custom plugins.
const (
	checkedGood = iota
	checkedBad
	checkedUnknown
)

func newCheck() *cobra.Command {
	loader := daemon.NewLoader()
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether this node's cards need attention",
		Long: `Print one line, and exit with
  0  if no card has a fault
  1  if a card is broken or missing, and needs attention
  2  if the answer is unknown, because the daemon doesn't answer, hasn't read all
     cards or can't read them, hasn't advertised them yet, or the node has no cards
node-problem-detector expects these exit codes from its custom plugins. With
--node-condition-type, the daemon also writes the answer to a Node condition.

Cards that are cordoned, excluded or being programmed don't count. A recovering card
counts only if it counted before. The command connects to the daemon at --socket,
which only root can use.`,
		Example: `  accelerator-device-plugin check
  kubectl -n kube-system exec POD -- accelerator-device-plugin check`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line, code := "", checkedUnknown
			if socket, err := daemonSocket(cmd, loader); err != nil {
				return err
			} else if state, err := control.Dial(socket).State(cmd.Context()); err != nil {
				line = "the daemon could not be asked: " + err.Error()
			} else {
				line, code = checked(state.Verdict)
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), terminal.Escape(line)); err != nil {
				return failure{error: fmt.Errorf("output: %w", err), code: checkedUnknown}
			}
			if code == checkedGood {
				return nil
			}
			return failure{error: errors.New(line), logged: true, code: code}
		},
	}
	addSocket(cmd, loader)
	return cmd
}

// checked returns the line to print and the exit code for a verdict.
func checked(v nodecondition.Verdict) (line string, code int) {
	switch v.Status {
	case nodecondition.Good:
		return v.Message, checkedGood
	case nodecondition.Bad:
		return v.Message, checkedBad
	case nodecondition.Unknown:
		return v.Message, checkedUnknown
	}
	return fmt.Sprintf("the daemon answers %q, want good, bad or unknown: it has another version", v.Status), checkedUnknown
}
