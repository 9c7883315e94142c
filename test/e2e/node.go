package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// simulated is the simulated node's directory.
const simulated = cluster.Root + "/node"

// simulate runs the plugin's simulate command on the simulated node, and returns the command's output.
func (s *scene) simulate(args ...string) string {
	program := filepath.Join(s.dist, "bin_"+runtime.GOARCH, "accelerator-device-plugin")
	out, err := exec.CommandContext(s.ctx, program, append([]string{"simulate", simulated}, args...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("simulate %v: %w: %s", args, err, exit.Stderr)
	}
	s.check(err)
	return string(out)
}

// plug plugs in cards with one port each. The first card's port is dfl-port.0.
func (s *scene) plug(addresses ...string) {
	for _, address := range addresses {
		s.plugCard(address, 1, -1, afuID)
	}
}

// portNode returns the name of the device node of a card's port.
func (s *scene) portNode(address string) string {
	found := must(filepath.Glob(filepath.Join(simulated, "sys/bus/pci/devices", address, "fpga_region/region*/dfl-port.*")))
	if len(found) != 1 {
		s.failf("ports of %s: found %v, want one", address, found)
	}
	return filepath.Base(found[0])
}
