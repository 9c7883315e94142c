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

// Programming describes the hook that programs the devices of claims, and its bitstreams. The container runtime runs
// the hook on the host before each start of a container. This package only checks that the hook can succeed.
type Programming struct {
	// Hook runs accelerator-fpga on the host. Its arguments are the flags of the subcommand hook that are the same for
	// all claims.
	Hook cdi.Hook
	// Store is the store that the hook uses. Its path must be the same here as on the host.
	Store programming.Store
	// Ports is true if devices are ports. Otherwise they are cards with all their ports.
	Ports bool
}

// errOff is the error for a device that must be programmed while programming is off.
var errOff = errors.New("programming is off on this node (--programming-hook)")

// check returns an error if the hook cannot program a device with an AFU.
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

// unprogrammable returns an error for each device of a request that must have an AFU but cannot be programmed with it,
// and nil for the others. It does not consider whether the device already has the AFU.
func (c *Claims) unprogrammable(r request, s inventory.Snapshot) []error {
	problems := make([]error, len(r.Devices))
	for i, d := range r.Devices {
		afu := r.wants[i].afu
		if afu == "" {
			continue
		}
		now := s.Device(d.id)
		switch {
		case d.Admin: // another pod may hold the device
			problems[i] = errors.New("a claim with admin access cannot program a device")
		case c.cfg.Programming == nil:
			problems[i] = errOff
		case afu == programming.OpenCL:
			problems[i] = errors.New("the id belongs to all AOCX: name the hash of one of them")
		case now == nil: // if a newer snapshot contains the device, the next attempt checks it
			problems[i] = notYet{errors.New("the device has only just been found")}
		default:
			problems[i] = c.cfg.Programming.check(now, afu)
		}
	}
	return problems
}

// otherAFU wraps an error with the AFU that the device has and the one that the claim requests.
func otherAFU(now *inventory.Device, want string, err error) error {
	return fmt.Errorf("has AFU %s, but the claim requests %s: %w", cmp.Or(now.AFUID, "none"), want, err)
}

// hook returns the hook of a device of a prepared claim, or nil if the device is not programmed. It returns an error if
// programming has been switched off and the device has another AFU.
func (c *Claims) hook(d device, now *inventory.Device) (*cdi.Hook, error) {
	p := c.cfg.Programming
	switch {
	case d.Wanted == "" || p == nil && now.AFUID == d.Wanted:
		return nil, nil
	case p == nil:
		return nil, otherAFU(now, d.Wanted, errOff)
	}
	// Port 0 has the same ID as its card, so with this ID the hook could choose another port.
	name := d.id
	if p.Ports && !strings.Contains(name, "-p") {
		name += "-p0"
	}
	args := []string{"accelerator-fpga", "hook", "--device", name, "--afu", d.Wanted}
	return &cdi.Hook{Path: p.Hook.Path, Args: slices.Concat(args, p.Hook.Args)}, nil
}
