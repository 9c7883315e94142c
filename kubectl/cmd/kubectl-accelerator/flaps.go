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
		Short: "Print the cards that failed most often",
		Long: `Print the cards on all nodes, or on each NODE, that were removed or whose health changed
within the time given by --since, with the worst first. The nodes remember these changes
across plugin restarts and upgrades (see "The ledger" in docs/service.md).

  FAILURES  how often the card became unhealthy in that time; "+" if there may be more,
            because a node remembers only a card's last 20 changes
  TOTAL     all failures that the node has counted
  REMOVALS  how often the card was removed in total
  LAST      the last health change or removal in that time
  HEALTH    current health of the card's worst device; "absent" if the card has no device
  REASONS   reasons for the changes in that time, the most frequent first; the 6 in
            power-throttled=6 is the reason's value, not a number of changes`,
		Example: `  kubectl accelerator flaps
  kubectl accelerator flaps --since 12h
  kubectl accelerator flaps worker-3 worker-4 --since 30d -o wide
  kubectl accelerator flaps -o custom-columns=NODE:.node,CARD:.card,FAILURES:.failuresSince`,
		ValidArgsFunction: c.nodes(0),
	}
	cmd.Flags().StringVar(&since, "since", "7d", "show only changes in the last `TIME`, such as 12h or 7d")
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

// parseDays parses a duration, which can also be given in days, as in 7d.
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
