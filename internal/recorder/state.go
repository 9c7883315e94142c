package recorder

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// kind is how it stands with a device, as far as Events tell it apart.
type kind uint8

const (
	well kind = iota
	degraded
	unhealthy
	excluded // by the operator
	moving   // to be offered as something else, when nobody holds it
	removed  // who holds it is not known
	removedInUse
	replacedInUse
)

// here says whether the device is in its slot.
func (k kind) here() bool { return k < removed }

// state is a device, and since when it stands so with it.
type state struct {
	kind   kind
	device *inventory.Device
	since  time.Time
	found  bool // it was so when we came; since is when that was
}

// kindOf judges a device by its reasons. Something else in the place of a device
// that is held may be another one, or itself under another name: it has left
// before, or it has not.
func kindOf(d *inventory.Device, was kind) kind {
	has := func(reason string) bool { return slices.Contains(d.Reasons, reason) }
	switch {
	case has(inventory.ReasonRemovedInUse):
		return removedInUse
	case has(inventory.ReasonRemoved):
		return removed
	case has(inventory.ReasonReplacedInUse) && !was.here():
		return replacedInUse
	case has(inventory.ReasonReplacedInUse), has(inventory.ReasonMoving):
		return moving
	case len(d.Reasons) > 0 && !slices.ContainsFunc(d.Reasons, notExcluded):
		return excluded
	}
	switch d.Health {
	case inventory.Healthy:
		return well
	case inventory.Degraded:
		return degraded
	}
	return unhealthy
}

// notExcluded says that a reason is another one than the operator's word.
func notExcluded(reason string) bool {
	return strings.TrimPrefix(reason, inventory.ReasonRecovering+"=") != inventory.ReasonExcluded
}

// over says that a reason does not hold any more, but for the time that good news
// has to wait.
func over(reason string) bool {
	return strings.HasPrefix(reason, inventory.ReasonRecovering+"=")
}

// hasTrouble says whether d has a reason that is not over and not among the others.
func hasTrouble(d *inventory.Device, others []string) bool {
	return slices.ContainsFunc(d.Reasons, func(r string) bool { return !over(r) && !slices.Contains(others, r) })
}
