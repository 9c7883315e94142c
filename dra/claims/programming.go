package claims

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/programming"
)

// Programming describes the hook that programs claims' devices. The container runtime runs the hook on the host
// whenever a container starts. This package only checks that the hook can succeed.
type Programming struct {
	// Hook runs accelerator-fpga on the host. Its arguments are flags for accelerator-fpga's hook command, and are the
	// same for all claims.
	Hook cdi.Hook
	// Store is the store that the hook uses. It must have the same path here as on the host.
	Store programming.Store
	// Ports is true if devices are ports. Otherwise, they are whole cards with all their ports.
	Ports bool
}

// errOff is the error for a device that would have to be programmed when programming is off.
var errOff = errors.New("programming is off on this node (--programming-hook)")

// check returns an error if the hook can't program the device with the AFU.
func (p *Programming) check(now *inventory.Device, afu string) error {
	if now.InterfaceID == "" {
		return errors.New("the device has no interface ID, because it does not belong to a card with an FME: it cannot be programmed")
	}
	b, err := p.Store.Lookup(now.InterfaceID, afu)
	if err != nil {
		return err
	}
	return b.Close()
}

// unprogrammable returns an error for each of the request's devices that must have an AFU but can't be programmed with
// it, even if the device already has that AFU. For all other devices, the result is nil.
func (c *Claims) unprogrammable(r request, s inventory.Snapshot) []error {
	problems := make([]error, len(r.Devices))
	for i, d := range r.Devices {
		afu := r.wants[i].afu
		if afu == "" {
			continue
		}
		now := s.Device(d.id)
		switch {
		case d.Admin: // another pod may be using the device
			problems[i] = errors.New("a claim with admin access cannot program a device")
		case c.cfg.Programming == nil:
			problems[i] = errOff
		case afu == programming.OpenCL:
			problems[i] = errors.New("all AOCX files share this id: name the hash of one of them")
		case now == nil: // the next attempt checks the device if a newer snapshot contains it
			problems[i] = notYet{errors.New("the device has only just been found")}
		default:
			problems[i] = c.cfg.Programming.check(now, afu)
		}
	}
	return problems
}

// otherAFU adds the device's AFU and the AFU that the claim requests to an error.
func otherAFU(now *inventory.Device, want string, err error) error {
	return fmt.Errorf("has AFU %s, but the claim requests %s: %w", cmp.Or(now.AFUID, "none"), want, err)
}

// hook returns the hook for a device of a prepared claim, or nil if the device doesn't need one. It returns an error if
// programming has been turned off and the device has a different AFU.
func (c *Claims) hook(d device, now *inventory.Device) (*cdi.Hook, error) {
	p := c.cfg.Programming
	switch {
	case d.Wanted == "" || p == nil && now.AFUID == d.Wanted:
		return nil, nil
	case p == nil:
		return nil, otherAFU(now, d.Wanted, errOff)
	}
	// Port 0 has the same ID as its card, so if the hook got only the ID, it could choose another port.
	name := d.id
	if p.Ports && !strings.Contains(name, "-p") {
		name += "-p0"
	}
	args := []string{"accelerator-fpga", "hook", "--device", name, "--afu", d.Wanted}
	return &cdi.Hook{Path: p.Hook.Path, Args: slices.Concat(args, p.Hook.Args)}, nil
}
