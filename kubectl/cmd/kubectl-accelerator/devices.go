package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/kubectl/rows"
)

func newDevices(c *cluster) *cobra.Command {
	var unhealthy bool
	cmd := &cobra.Command{
		Use:   "devices [NODE...]",
		Short: "Print the FPGA devices of all nodes",
		Long: `Print the FPGA devices of all nodes, or of each NODE, with their health, the container
that uses them, and the reasons if they aren't healthy. A card that was present before
and didn't come back is listed with the reason "missing". With DRA, the reason
"DeviceTaintRule/NAME" means that this DeviceTaintRule in the cluster keeps pods away
from the device. A cordoned slot without a card is listed with the health "absent".

A node that doesn't answer is listed with the health "unknown" and the reason, and the
exit code is then 1. Unhealthy devices don't affect the exit code. HOLDER is "?" if the
node doesn't know which container uses the device.`,
		Example: `  kubectl accelerator devices
  kubectl accelerator devices --unhealthy
  kubectl accelerator devices worker-3 -o wide
  kubectl accelerator devices -o jsonpath='{range .items[?(@.health!="healthy")]}{.node} {.id} {.reasons[*]}{"\n"}{end}'
  kubectl accelerator devices -o custom-columns=NODE:.node,ID:.id,AFU:.afuId`,
		ValidArgsFunction: c.nodes(0),
	}
	cmd.Flags().BoolVar(&unhealthy, "unhealthy", false, "show only devices that aren't healthy, missing cards, and nodes that don't answer")
	out := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, nodes []string) error {
		if err := out.parse(rows.DeviceColumns, rows.WideDevices); err != nil {
			return err
		}
		answers, err := c.ask(cmd, nodes, false)
		if err != nil {
			return err
		}
		rules, err := c.taintRules(cmd, answers)
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: not shown: %s\n", program, terminal.Escape(err.Error()))
		}
		all := rows.Devices(answers, rules, unhealthy)
		if len(all) == 0 {
			what := "device"
			if unhealthy {
				what = "device that is not healthy"
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: found no %s\n", program, what)
		}
		if err := out.print(cmd.OutOrStdout(), all); err != nil {
			return failure{err}
		}
		return finish(cmd, answers)
	}
	return cmd
}
