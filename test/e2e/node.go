package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// simulated is the directory of the simulated node.
const simulated = cluster.Root + "/node"

// simulate runs the command simulate of the binary in the image on the simulated node, and returns its
// output.
func (s *scene) simulate(args ...string) string {
	out, err := s.trySimulate(args...)
	s.check(err)
	return out
}

// trySimulate is simulate, but returns errors.
func (s *scene) trySimulate(args ...string) (string, error) {
	program := filepath.Join(s.dist, "bin_"+runtime.GOARCH, "accelerator-device-plugin")
	out, err := exec.CommandContext(s.ctx, program, append([]string{"simulate", simulated}, args...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("simulate %v: %w: %s", args, err, exit.Stderr)
	}
	return string(out), err
}

// plug plugs cards with one port each into the node. The first port is dfl-port.0.
func (s *scene) plug(addresses ...string) {
	for _, address := range addresses {
		s.plugAFU(address, afuID)
	}
}

// plugAFU plugs a card whose port has the AFU.
func (s *scene) plugAFU(address, afu string) {
	s.simulate("plug", address, "--board", "pac-a10", "--afu", afu, "--interface", interfaceID)
}

// pull removes a card from the node.
func (s *scene) pull(address string) { s.simulate("pull", address) }

// breakPower returns a function that puts a card's port into power state AP6 (false), or heals it (true).
func (s *scene) breakPower(address string) func(healthy bool) error {
	return s.breakPort(address, "power-throttled")
}

// breakPort returns a function that breaks a card's port with a reason (false), or heals it (true).
func (s *scene) breakPort(address, reason string) func(healthy bool) error {
	return func(healthy bool) error {
		args := []string{"break", address, reason}
		if healthy {
			args = []string{"heal", address}
		}
		_, err := s.trySimulate(args...)
		return err
	}
}

// portNode returns the name of the device node of a card's port.
func (s *scene) portNode(address string) string {
	found, err := filepath.Glob(filepath.Join(simulated, "sys/bus/pci/devices", address, "fpga_region/region*/dfl-port.*"))
	s.check(err)
	if len(found) != 1 {
		s.failf("ports of %s: found %v, want one", address, found)
	}
	return filepath.Base(found[0])
}
