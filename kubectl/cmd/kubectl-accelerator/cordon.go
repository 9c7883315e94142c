package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/kubectl/fleet"
)

func newCordon(c *cluster) *cobra.Command {
	var why string
	var during time.Duration
	cmd := &cobra.Command{
		Use:   "cordon NODE CARD... --why TEXT",
		Short: "Take cards or ports on a node out of service",
		Long: `Take cards or ports on a node out of service immediately. New pods don't get them, but
pods that are already using one keep it. CARD is a card with all its ports, such as
3b:00.0, or a single port, such as 3b:00.0-p1. A cordon lasts until you run uncordon, or
for the time given with --for. The node records your user name, as it is known to the API
server.`,
		Example: `  kubectl accelerator cordon worker-3 3b:00.0 --why "replace the fan"
  kubectl accelerator cordon worker-3 3b:00.0-p1 --why "link errors, ticket 4711" --for 2h`,
		Args:              nodeAndCards,
		ValidArgsFunction: c.nodeAndCards(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(why) == "" {
				return errors.New("--why: found none, want the reason for the cordon")
			}
			if during < 0 {
				return fmt.Errorf("--for: found %s, want a duration such as 2h", during)
			}
			return c.onNode(cmd, args[0], "want a device of this node", "cordon", append(slices.Clone(args[1:]), "--why="+why, "--for="+during.String())...)
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "reason for the cordon, as one line of `TEXT`; required")
	cmd.Flags().DurationVar(&during, "for", 0, "how long the cordon lasts, such as 2h (default: until uncordon)")
	return cmd
}

func newUncordon(c *cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "uncordon NODE CARD...",
		Short: "Put cards or ports on a node back into service",
		Long: `Put cards or ports on a node back into service by ending their cordons. CARD is a card
or a port, the same as for cordon. Healthy devices are advertised again immediately.`,
		Example:           "  kubectl accelerator uncordon worker-3 3b:00.0",
		Args:              nodeAndCards,
		ValidArgsFunction: c.nodeAndCards(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onNode(cmd, args[0], "cordoned", "uncordon", args[1:]...)
		},
	}
}

func newForget(c *cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "forget NODE CARD",
		Short: "Forget a card that will not come back to a node",
		Long: `Forget a card that was taken out of a node, such as 3b:00.0. The card is no longer
reported as missing, and its history is lost, so that the next card in the slot doesn't
inherit it. A card that is still present can't be forgotten.`,
		Example: "  kubectl accelerator forget worker-3 3b:00.0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return fmt.Errorf("found %d arguments, want NODE and CARD, such as worker-3 3b:00.0", len(args))
			}
			return nodeAndCards(cmd, args)
		},
		ValidArgsFunction: c.nodeAndCards(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onNode(cmd, args[0], "want one that this node remembers", "forget", args[1])
		},
	}
}

func nodeAndCards(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("found %d arguments, want NODE and CARD, such as worker-3 3b:00.0", len(args))
	}
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") || a == "" }); i >= 0 {
		return fmt.Errorf("found %q, want NODE and CARD, such as worker-3 3b:00.0", args[i])
	}
	return nil
}

// onNode runs one of the plugin's commands on a node, passing along the user's name, and prints the output. If the node
// has several releases, it runs the command in a pod of each. A release that doesn't have the cards fails with an error
// that contains elsewhere; onNode ignores such errors if the command succeeds in another release.
func (c *cluster) onNode(cmd *cobra.Command, node, elsewhere, command string, args ...string) error {
	f, err := c.fleet(cmd)
	if err != nil {
		return err
	}
	targets, err := f.Targets(cmd.Context(), node)
	if err != nil {
		return failure{err}
	}
	by, err := f.User(cmd.Context())
	if err != nil {
		return failure{err}
	}
	args = append(append([]string{command}, args...), "--by="+by)
	var failed, others []error
	printed := map[string]bool{}
	for _, t := range targets {
		out, err := runWithin(cmd.Context(), f, t, args)
		var refused *fleet.Failed
		if errors.As(err, &refused) {
			refused.Stderr = socket.ReplaceAllString(refused.Stderr, "")
		}
		switch {
		case err == nil && !printed[string(out)]:
			printed[string(out)] = true
			for line := range strings.Lines(string(out)) {
				fmt.Fprintln(cmd.OutOrStdout(), terminal.Escape(strings.TrimSuffix(line, "\n")))
			}
		case err == nil:
		case errors.As(err, &refused) && refused.Code == 2: // the daemon doesn't accept the arguments
			return err
		case errors.As(err, &refused) && strings.Contains(refused.Stderr, elsewhere):
			refused.Stderr = strings.Replace(refused.Stderr, ", or --absent to cordon the next card in this slot", "", 1) // only the plugin's own command has this flag
			others = append(others, fmt.Errorf("%s: %w", t, err))
		default:
			failed = append(failed, fmt.Errorf("%s: %w", t, err))
		}
	}
	if len(printed) == 0 {
		failed = append(failed, others...)
	}
	return asFailure(errors.Join(failed...))
}

// socket matches the program's name and the path of the daemon's socket at the start of the daemon's error messages.
var socket = regexp.MustCompile(`^accelerator-device-plugin: /\S+: `)

func runWithin(ctx context.Context, f *fleet.Fleet, t fleet.Target, args []string) ([]byte, error) {
	if t.Problem != nil {
		return nil, t.Problem
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.Limit, fmt.Errorf("no answer within %s: devices shows whether the command has had an effect", f.Limit))
	defer cancel()
	return f.Run(ctx, t, args...)
}
