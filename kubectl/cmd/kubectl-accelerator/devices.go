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
		Long: `Print the FPGA devices of all nodes, or of each NODE: their health, the container
that uses them, and the reasons if they are not healthy. A card that was present
before and did not come back is listed with the reason "missing". With DRA, the reason
"DeviceTaintRule/NAME" means that this rule of the cluster keeps pods away from the
device. A cordoned slot without a card is listed with the health "absent".

A node that does not answer is listed with the health "unknown" and the reason, and
makes the exit code 1. Unhealthy devices do not change the exit code. HOLDER is "?" if
the node does not know which container uses the device.`,
		Example: `  kubectl accelerator devices
  kubectl accelerator devices --unhealthy
  kubectl accelerator devices worker-3 -o wide
  kubectl accelerator devices -o jsonpath='{range .items[?(@.health!="healthy")]}{.node} {.id} {.reasons[*]}{"\n"}{end}'
  kubectl accelerator devices -o custom-columns=NODE:.node,ID:.id,AFU:.afuId`,
		ValidArgsFunction: c.nodes(0),
	}
	cmd.Flags().BoolVar(&unhealthy, "unhealthy", false, "only devices that are not healthy, missing cards, and nodes that do not answer")
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
