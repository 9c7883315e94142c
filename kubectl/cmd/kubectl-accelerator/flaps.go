package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/kubectl/rows"
)

func newFlaps(c *cluster) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "flaps [NODE...]",
		Short: "Print the cards of all nodes that failed most",
		Long: `Print the cards of all nodes, or of each NODE, whose health has changed or that were
removed within the time of --since, the worst first. The nodes remember these changes
across restarts and upgrades of the plugin (docs/service.md, The ledger).

  FAILURES  how often the card became unhealthy in that time; "+" if there may be more,
            because a node remembers only the newest 20 changes of a card
  TOTAL     all failures that the node has counted
  REMOVALS  how often the card was ever removed
  LAST      the newest change of health or removal in that time
  HEALTH    health of the card's worst device now; "absent" if the card has no device
  REASONS   reasons of the changes in that time, the most frequent first; the 6 in
            power-throttled=6 is the value of the reason, not a number of changes`,
		Example: `  kubectl accelerator flaps
  kubectl accelerator flaps --since 12h
  kubectl accelerator flaps worker-3 worker-4 --since 30d -o wide
  kubectl accelerator flaps -o custom-columns=NODE:.node,CARD:.card,FAILURES:.failuresSince`,
		ValidArgsFunction: c.nodes(0),
	}
	cmd.Flags().StringVar(&since, "since", "7d", "only changes within this `TIME` before now, such as 12h or 7d")
	out := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, nodes []string) error {
		within, err := parseDays(since)
		if err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		if err := out.parse(rows.FlapColumns, rows.WideFlaps); err != nil {
			return err
		}
		answers, err := c.ask(cmd, nodes, true)
		if err != nil {
			return err
		}
		all := rows.Flaps(answers, time.Now().Add(-within))
		if len(all) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: found no card whose health has changed since then, or that was removed\n", program)
		}
		if err := out.print(cmd.OutOrStdout(), all); err != nil {
			return failure{err}
		}
		return finish(cmd, answers)
	}
	return cmd
}

// parseDays parses a duration that may be a number of days.
func parseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("found %q, want a duration such as 90m, 12h or 7d", text)
}
