package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// newGranted returns a command that fails unless its container was given a device through CDI. The chart's test for the
// DRA driver runs it, because a runtime with CDI disabled would start the container without the device. Checking an
// environment variable is enough, because the same CDI device also provides the device nodes.
func newGranted() *cobra.Command {
	return &cobra.Command{
		Use:    "granted",
		Short:  "Print this container's devices, or fail if there are none",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ids := os.Getenv("ACCELERATOR_DEVICES")
			if ids == "" {
				return failure{error: errors.New("ACCELERATOR_DEVICES: found no value, want the ids of the container's devices: is CDI enabled in the container runtime?")}
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "devices "+ids)
			return asFailure(err)
		},
	}
}
