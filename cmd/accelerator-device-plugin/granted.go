package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newGranted returns a command that fails unless its container was given a device. The chart's test of
// the DRA driver runs it.
func newGranted() *cobra.Command {
	return &cobra.Command{
		Use:    "granted",
		Short:  "Print the devices of this container, or fail",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ids := os.Getenv("ACCELERATOR_DEVICES")
			nodes, err := grantedNodes(os.DirFS("/dev"))
			if err == nil && ids == "" {
				err = errors.New("ACCELERATOR_DEVICES: found no value, want the ids of the container's devices")
			}
			if err != nil {
				return failure{error: err}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "devices %s, nodes %s\n", ids, strings.Join(nodes, ","))
			return asFailure(err)
		},
	}
}

// defaultNodes are the device nodes of every container, by the runtime specification of OCI.
var defaultNodes = []string{"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}

// grantedNodes returns the names of the device nodes in the /dev of a container that are not those of
// every container. Without any it returns an error.
func grantedNodes(dev fs.FS) (nodes []string, err error) {
	err = fs.WalkDir(dev, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case name == "pts":
			return fs.SkipDir
		case err != nil:
			return err
		case entry.Type()&fs.ModeCharDevice != 0 && !slices.Contains(defaultNodes, name):
			nodes = append(nodes, name)
		}
		return nil
	})
	if err == nil && len(nodes) == 0 {
		err = errors.New("/dev: found only the nodes of every container, want that of a device")
	}
	return nodes, err
}
