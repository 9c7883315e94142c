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

func (s *scene) trySimulate(args ...string) (string, error) {
	program := filepath.Join(s.dist, "bin_"+runtime.GOARCH, "accelerator-device-plugin")
	out, err := exec.CommandContext(s.ctx, program, append([]string{"simulate", simulated}, args...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("simulate %v: %w: %s", args, err, exit.Stderr)
	}
	return string(out), err
}

// plug puts cards into the node, one port each. The first port that the driver finds
// is dfl-port.0.
func (s *scene) plug(addresses ...string) {
	for _, address := range addresses {
		s.plugAFU(address, afuID)
	}
}

// plugAFU plugs a card whose port has the AFU.
func (s *scene) plugAFU(address, afu string) {
	s.simulate("plug", address, "--board", "pac-a10", "--afu", afu, "--interface", interfaceID)
}

// pull takes a card out.
func (s *scene) pull(address string) { s.simulate("pull", address) }

// power puts a card's port into power state AP6, or makes it good.
func (s *scene) power(address string) func(good bool) error {
	return s.breaks(address, "power-throttled")
}

// breaks breaks a card's port by a reason, or heals it.
func (s *scene) breaks(address, reason string) func(good bool) error {
	return func(good bool) error {
		args := []string{"break", address, reason}
		if good {
			args = []string{"heal", address}
		}
		_, err := s.trySimulate(args...)
		return err
	}
}

// portNode is the name of the node of a card's port.
func (s *scene) portNode(address string) string {
	found, err := filepath.Glob(filepath.Join(simulated, "sys/bus/pci/devices", address, "fpga_region/region*/dfl-port.*"))
	s.check(err)
	if len(found) != 1 {
		s.failf("ports of %s: found %v, want one", address, found)
	}
	return filepath.Base(found[0])
}
